"""A request whose numbers overflow fails alone: not its neighbours, nor whoever sits in its row after it."""

import pytest
from transformers import PreTrainedModel

from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.engine.sequence import Record, Task
from inference.errors import Internal
from inference.model import fit
from inference.sampling import Sampling
from tests.families import VOCAB, tiny

POISON = VOCAB - 1
PROMPT = tuple(range(3, 40))


class Ear:
    def __init__(self) -> None:
        self.records: list[Record] = []

    def put(self, record: Record) -> None:
        self.records.append(record)

    @property
    def ids(self) -> list[int]:
        return [id for record in self.records for id in record.ids]


def poisoned(family: str) -> PreTrainedModel:
    """A model that computes nan from the token POISON on."""
    model = tiny(family)
    model.get_input_embeddings().weight.data[POISON] = float("nan")
    return model


def ask(engine: Engine, prompt: tuple[int, ...]) -> Ear:
    ear = Ear()
    engine.submit([Task(prompt, max_tokens=8, sampling=Sampling(greedy=True))], [ear])
    return ear


def finish(engine: Engine) -> None:
    while engine.step():
        pass


@pytest.mark.parametrize("family", ["llama", "jamba", "gptj"])
def test_a_request_that_overflows_leaves_nothing_behind(family: str) -> None:
    runner = fit.choose(poisoned(family), max_rows=3, context=64, kv_bytes=1 << 24).runner
    engine = Engine(runner, Sampler(POISON), max_batch_tokens=64, max_queued_tokens=1000)
    alone = ask(engine, PROMPT)
    finish(engine)
    together = [ask(engine, prompt) for prompt in ((*PROMPT, POISON, *PROMPT[:9]), PROMPT, PROMPT[:5])]
    finish(engine)
    assert isinstance(together[0].records[-1].error, Internal)
    assert together[1].ids == alone.ids
    for _ in range(2):
        after = [ask(engine, PROMPT[:5]) for _ in range(3)]
        finish(engine)
        assert [ear.ids for ear in after] == [together[2].ids] * 3
