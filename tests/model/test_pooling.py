"""An embedding is the mean of the model's last hidden states, whichever other rows the model computes."""

from collections.abc import Sequence

import pytest
import torch
from transformers import PreTrainedModel

from inference.errors import NotImplementedHere
from inference.model.batch import Batch, Resize
from inference.model.contiguous.encoder_decoder import EncoderDecoderRunner
from inference.model.contiguous.runner import ContiguousRunner, install_hooks
from inference.model.pooling import Vector, embed
from tests.families import CONTEXT, ENCODERS, FAMILIES, UNCACHED, tiny

TEXTS = [(5, 6, 7, 8, 9, 10, 11), (40,), (5, 6, 7, 90)]
# One of every kind: grouped and windowed attention, learned positions, a recurrent state, no cache, encoders.
KINDS = ("llama", "gemma3_text", "gpt2", "mamba", "opt", "openai-gpt", "t5", "bart")
OTHERS = sorted((set(FAMILIES) | set(UNCACHED)) - set(KINDS) - set(ENCODERS))


def vectors(model: PreTrainedModel, inputs: Sequence[Sequence[int]]) -> list[Vector]:
    work, steps = embed(model, inputs), 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            assert steps == len(inputs), "one input a step"
            return done.value
        steps += 1


def reference_vector(model: PreTrainedModel, ids: Sequence[int]) -> torch.Tensor:
    """The hidden states that transformers itself reports; of the encoder, if there is one."""
    text = torch.tensor([ids])
    with torch.inference_mode():
        if model.config.is_encoder_decoder:
            output = model(input_ids=text, decoder_input_ids=torch.tensor([[0]]), output_hidden_states=True)
            states = output.encoder_last_hidden_state
        else:
            states = model(input_ids=text, output_hidden_states=True).hidden_states[-1]
    mean = states[0].double().mean(0)
    return (mean / mean.norm()).float()


def busy_runner(model: PreTrainedModel) -> ContiguousRunner:
    """The model's runner, with some rows filled."""
    runner_class = EncoderDecoderRunner if model.config.is_encoder_decoder else ContiguousRunner
    runner = runner_class(
        model, max_sequences=2, context=CONTEXT, kv_capacity=2 * CONTEXT, supports_chunked_prefill=True
    )
    encoder_inputs = {0: (7, 8)} if runner.is_encoder_decoder else {}
    runner.forward(Batch([5, 6, 7], [0, 3], [0], [0], [2], [Resize(2, 64)], encoder_inputs))
    return runner


@pytest.mark.parametrize("family", KINDS)
def test_a_vector_is_the_mean_of_the_last_hidden_states(family: str) -> None:
    expected = [reference_vector(tiny(family), ids) for ids in TEXTS]
    model = tiny(family)
    install_hooks(model)
    for vector, target in zip(vectors(model, TEXTS), expected, strict=True):
        assert torch.tensor(vector).norm() == pytest.approx(1, abs=1e-5)
        torch.testing.assert_close(torch.tensor(vector), target, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ("llama", "mamba", "t5"))
def test_a_vector_does_not_depend_on_its_neighbours(family: str) -> None:
    model = tiny(family)
    assert vectors(model, TEXTS) == [vectors(model, [ids])[0] for ids in TEXTS]


@pytest.mark.parametrize("family", ("llama", "gpt2", "t5"))
def test_embedding_leaves_the_runners_rows_unchanged(family: str) -> None:
    model = tiny(family)
    runner = busy_runner(model)
    step = Batch([9], [0, 1], [3], [0], [0])
    before = runner.forward(step).clone()
    vectors(model, TEXTS)
    assert torch.equal(runner.forward(step), before)


def test_a_model_without_hidden_states_is_refused() -> None:
    with pytest.raises(NotImplementedHere, match="hidden states"):
        next(embed(tiny("llama").base_model, TEXTS))


@pytest.mark.slow
@pytest.mark.parametrize("family", OTHERS)
def test_every_family_matches_transformers(family: str) -> None:
    model = tiny(family)
    for vector, ids in zip(vectors(model, TEXTS), TEXTS, strict=True):
        torch.testing.assert_close(torch.tensor(vector), reference_vector(model, ids), rtol=1e-4, atol=1e-5)
