"""An embedding is the mean of the model's last hidden states, whichever other rows the model computes."""

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from typing import Any

import pytest
import torch
from transformers import OPTConfig, OPTForCausalLM, PreTrainedConfig, PreTrainedModel

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.engine.step_output import StepOutput
from inference.model.batch import Pooling, Runner
from inference.model.contiguous.encoder_decoder import EncoderDecoderRunner
from inference.model.contiguous.runner import ContiguousRunner
from inference.model.forward_pass.pooling import embedding_sizes
from inference.model.fused.extract import extract_spec
from inference.model.fused.runner import FusedRunner
from inference.model.paged.kv_pool import PAGE_SIZE, KVPool
from inference.model.paged.runner import PagedRunner
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from inference.model.uncached.runner import UncachedRunner
from inference.sampling import Sampling
from tests.engine.generation_requests import make_request
from tests.model.fused.llamas import tiny_with_packed_weights
from tests.tiny_models.families import CONTEXT, FAMILIES, UNCACHED, tiny

TEXTS = [(5, 6, 7, 8, 9, 10, 11), (40,), (5, 6, 7, 90), tuple(range(3, 60))]
BUDGET = 16  # tokens of a step: the longest text is computed in chunks
ROWS = 8
WIDTH = 32  # of the tiny Llama

Vector = tuple[float, ...]


def contiguous(model: PreTrainedModel, chunked_prefill: bool = True) -> Runner:
    runner_class = EncoderDecoderRunner if model.config.is_encoder_decoder else ContiguousRunner
    return runner_class(
        model,
        max_sequences=ROWS,
        context=CONTEXT,
        kv_capacity=ROWS * CONTEXT,
        chunked_prefill=chunked_prefill,
    )


def recurrent(model: PreTrainedModel) -> Runner:
    return contiguous(model, chunked_prefill=False)


def paged(model: PreTrainedModel) -> Runner:
    return PagedRunner(model, KVPool(ROWS * CONTEXT // PAGE_SIZE), max_sequences=ROWS, context=CONTEXT)


def uncached(model: PreTrainedModel) -> Runner:
    return UncachedRunner(model, max_sequences=ROWS, context=CONTEXT)


def selected(model: PreTrainedModel) -> Runner:
    return select_runner(
        model,
        RunnerLimits(max_sequences=ROWS, context=CONTEXT, kv_memory_bytes=1 << 26),
        RunnerRules(timed=False),
    ).runner


# One of every kind: grouped and windowed attention, learned positions, a recurrent state, no cache, encoders.
KINDS: list[tuple[str, Callable[[PreTrainedModel], Runner]]] = [
    ("llama", contiguous),
    ("llama", paged),
    ("llama", uncached),
    ("gemma3_text", contiguous),
    ("gemma3_text", paged),
    ("gpt2", contiguous),
    ("opt", contiguous),
    ("mamba", recurrent),
    ("openai-gpt", uncached),
    ("xlnet", uncached),
    ("t5", contiguous),
    ("t5", uncached),
    ("bart", contiguous),
]
OTHERS = sorted((set(FAMILIES) | set(UNCACHED)) - {name for name, _ in KINDS})


class Collector:
    """An OutputSink of one sequence."""

    def __init__(self) -> None:
        self.embedding: Vector = ()
        self.token_ids: list[int] = []

    def put(self, output: StepOutput) -> None:
        assert output.error is None, output.error
        self.embedding += output.embedding
        self.token_ids += output.token_ids


def embed(
    runner: Runner,
    texts: Sequence[Sequence[int]],
    prompts: Sequence[Sequence[int]] = (),
    pooling: Pooling = "mean",
) -> tuple[list[Vector], list[list[int]]]:
    """The embeddings of the texts, and the greedy answers to prompts that are computed beside them."""
    options = EngineOptions(max_batch_tokens=BUDGET, max_queued_tokens=10_000, pooling=pooling)
    engine = Engine(runner, Sampler(runner.vocab), options)
    pooled, generated = [Collector() for _ in texts], [Collector() for _ in prompts]
    engine.submit([make_request(tuple(ids), 12, Sampling(greedy=True)) for ids in prompts], generated)
    engine.step()
    engine.submit_pooling([make_request(tuple(ids), 0) for ids in texts], pooled)
    engine.run_until_idle()
    return [each.embedding for each in pooled], [each.token_ids for each in generated]


def reference_vector(
    model: PreTrainedModel, ids: Sequence[int], first_pooled: int | None = None
) -> torch.Tensor:
    """The vector of the hidden states that transformers itself reports; of the encoder, if there is one."""
    text = torch.tensor([ids])
    with torch.inference_mode():
        if model.config.is_encoder_decoder:
            output = model(input_ids=text, decoder_input_ids=torch.tensor([[0]]), output_hidden_states=True)
            states = output.encoder_last_hidden_state
        else:
            states = model(input_ids=text, output_hidden_states=True).hidden_states[-1]
    mean = states[0, first_pooled:].double().mean(0)
    return (mean / mean.norm()).float()


def check(vectors: Sequence[Vector], expected: Sequence[torch.Tensor], atol: float = 1e-5) -> None:
    for vector, target in zip(vectors, expected, strict=True):
        assert torch.tensor(vector).norm() == pytest.approx(1, abs=1e-5)
        torch.testing.assert_close(torch.tensor(vector), target, rtol=1e-4, atol=atol)


@pytest.mark.parametrize(("family", "build"), KINDS)
def test_a_vector_is_the_mean_of_the_last_hidden_states(family: str, build: Callable[..., Runner]) -> None:
    expected = [reference_vector(tiny(family), ids) for ids in TEXTS]
    check(embed(build(tiny(family)), TEXTS)[0], expected)


@pytest.mark.parametrize(("family", "build"), KINDS)
def test_a_vector_may_be_the_state_of_the_last_token(family: str, build: Callable[..., Runner]) -> None:
    expected = [reference_vector(tiny(family), ids, -1) for ids in TEXTS]
    check(embed(build(tiny(family)), TEXTS, [(5, 6, 7)], pooling="last")[0], expected)


@pytest.mark.parametrize(("family", "build"), KINDS)
def test_answers_and_embeddings_do_not_change_each_other(family: str, build: Callable[..., Runner]) -> None:
    prompts = [(5, 6, 7), (30, 31)]
    alone = [embed(build(tiny(family)), [ids])[0][0] for ids in TEXTS]
    _, answer_ids = embed(build(tiny(family)), [], prompts)
    together, shared_ids = embed(build(tiny(family)), TEXTS, prompts)
    check(together, [torch.tensor(vector) for vector in alone])
    assert shared_ids == answer_ids and all(len(ids) == 12 for ids in answer_ids)


@pytest.mark.parametrize("family", ("llama", "gemma2", "qwen3", "granite"))
@pytest.mark.parametrize(("dtype", "atol"), ((torch.float32, 1e-5), (torch.bfloat16, 1e-2)))
def test_native_code_sums_the_states_of_the_paged_runner(
    family: str, dtype: torch.dtype, atol: float
) -> None:
    model = tiny_with_packed_weights(family, dtype)
    pool = KVPool(ROWS * CONTEXT // PAGE_SIZE)
    fused = FusedRunner(model, extract_spec(model, CONTEXT), pool, max_sequences=ROWS, context=CONTEXT)
    prompts = [(5, 6, 7), (30, 31)]
    vectors, answer_ids = embed(fused, TEXTS, prompts)
    check(vectors, [torch.tensor(vector) for vector in embed(paged(model), TEXTS)[0]], atol)
    assert answer_ids == embed(fused, [], prompts)[1]
    assert vectors[0] == embed(fused, TEXTS[:1])[0][0]
    last, _ = embed(fused, TEXTS, prompts, pooling="last")
    check(last, [torch.tensor(vector) for vector in embed(paged(model), TEXTS, (), "last")[0]], atol)


def test_a_model_without_hidden_states_cannot_pool() -> None:
    base_model: Any = tiny("llama").base_model
    base_model.get_output_embeddings = lambda: None
    assert not UncachedRunner(base_model, max_sequences=1, context=CONTEXT).capabilities.pooling
    assert embedding_sizes(base_model) == ()


@pytest.mark.parametrize("family", sorted({name for name, _ in KINDS}))
def test_the_size_of_a_vector_is_known_beforehand(family: str) -> None:
    model = tiny(family)
    assert embedding_sizes(model) == (len(reference_vector(model, TEXTS[0])),)


def test_the_states_given_to_the_head_may_be_narrower_than_those_of_the_layers() -> None:
    config = OPTConfig(
        vocab_size=64,
        hidden_size=32,
        word_embed_proj_dim=16,
        num_hidden_layers=1,
        ffn_dim=32,
        num_attention_heads=2,
        max_position_embeddings=64,
    )
    model = OPTForCausalLM(config).eval()
    assert embedding_sizes(model) == (len(reference_vector(model, (5, 6, 7))),) == (16,)


def test_a_model_whose_width_is_not_known_names_no_sizes() -> None:
    model: Any = copy(tiny("llama"))
    model.get_output_embeddings = lambda: None
    model.model = copy(model.model)
    model.model.config = PreTrainedConfig()
    assert embedding_sizes(model) == ()


@pytest.mark.parametrize(
    ("declared", "smaller"),
    [
        ({"is_matryoshka": True}, list(range(1, WIDTH))),
        ({"is_matryoshka": False}, []),
        ({"is_matryoshka": "yes"}, []),
        ({"matryoshka_dimensions": [16, 8]}, [8, 16]),
        ({"matryoshka_dimensions": [8, WIDTH, WIDTH + 1, 0, -1, True, "9", None, 8]}, [8]),
        ({"matryoshka_dimensions": None}, []),
        ({"matryoshka_dimensions": None, "is_matryoshka": True}, list(range(1, WIDTH))),
        ({"matryoshka_dimensions": 8}, []),
    ],
)
def test_smaller_sizes_are_those_that_the_model_was_trained_for(
    declared: dict[str, Any], smaller: list[int]
) -> None:
    model = copy(tiny("llama"))
    model.config = deepcopy(model.config)
    for name, value in declared.items():
        setattr(model.config, name, value)
    assert list(embedding_sizes(model)) == [*smaller, WIDTH]


@pytest.mark.slow
@pytest.mark.parametrize("family", OTHERS)
def test_every_family_matches_transformers(family: str) -> None:
    expected = [reference_vector(tiny(family), ids) for ids in TEXTS]
    assert embedding_sizes(tiny(family)) == (len(expected[0]),)
    check(embed(selected(tiny(family)), TEXTS)[0], expected)
