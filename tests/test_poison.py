"""A request whose numbers overflow fails alone: neighbours and the next sequence in its row do not notice."""

import pytest
from transformers import PreTrainedModel

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.engine.step_output import StepOutput
from inference.errors import Internal
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from inference.sampling import Sampling
from tests.engine.generation_requests import make_request
from tests.tiny_models.families import VOCAB, tiny

POISON = VOCAB - 1
PROMPT = tuple(range(3, 40))


class StepOutputCollector:
    def __init__(self) -> None:
        self.outputs: list[StepOutput] = []

    def put(self, output: StepOutput) -> None:
        self.outputs.append(output)

    @property
    def ids(self) -> list[int]:
        return [id for output in self.outputs for id in output.token_ids]


def poisoned(family: str) -> PreTrainedModel:
    """A model that computes NaN from the token POISON on."""
    model = tiny(family)
    model.get_input_embeddings().weight.data[POISON] = float("nan")
    return model


def submit(engine: Engine, prompt: tuple[int, ...]) -> StepOutputCollector:
    collector = StepOutputCollector()
    engine.submit([make_request(prompt, max_tokens=8, sampling=Sampling(greedy=True))], [collector])
    return collector


def run_until_idle(engine: Engine) -> None:
    while engine.step():
        pass


@pytest.mark.parametrize(
    ("family", "kv_dtype"), [("llama", "auto"), ("llama", "int8"), ("jamba", "auto"), ("gptj", "auto")]
)
def test_a_request_whose_logits_overflow_affects_no_other(family: str, kv_dtype: str) -> None:
    runner = select_runner(
        poisoned(family),
        RunnerLimits(max_sequences=3, context=64, kv_memory_bytes=1 << 24),
        RunnerRules(kv_dtype=kv_dtype),
    ).runner
    engine = Engine(runner, Sampler(POISON), EngineOptions(max_batch_tokens=64, max_queued_tokens=1000))
    alone = submit(engine, PROMPT)
    run_until_idle(engine)
    together = [submit(engine, prompt) for prompt in ((*PROMPT, POISON, *PROMPT[:9]), PROMPT, PROMPT[:5])]
    run_until_idle(engine)
    assert isinstance(together[0].outputs[-1].error, Internal)
    assert together[1].ids == alone.ids
    for _ in range(2):
        after = [submit(engine, PROMPT[:5]) for _ in range(3)]
        run_until_idle(engine)
        assert [collector.ids for collector in after] == [together[2].ids] * 3
