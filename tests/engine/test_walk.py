"""Random walks: whatever is cancelled, preempted or fails, each answer is what it is alone."""

import random
import time

import pytest
import torch

from inference.model.batch import Batch
from tests.engine.conftest import END, NAN, POISON, Bench, Box, FakeRunner, scores

SETTINGS = {
    "roomy": {"max_rows": 6, "area": 6 * 96, "context": 96},
    "tight": {"max_rows": 6, "area": 2 * 96, "context": 96},
    "one row": {"max_rows": 1, "area": 96, "context": 96},
    "odd context": {"max_rows": 5, "area": 250, "context": 90},
    "recurrent": {"max_rows": 5, "area": 200, "context": 96, "resumes": False},
    "encoder": {"max_rows": 5, "area": 200, "context": 96, "encodes": True},
    "recurrent encoder": {"max_rows": 5, "area": 200, "context": 96, "encodes": True, "resumes": False},
}


def prompt(chance: random.Random) -> list[int]:
    """Often one of a few beginnings, so that prefixes are shared; sometimes poisoned."""
    beginning = random.Random(chance.randrange(3)).choices(range(1, 30), k=chance.choice((0, 20, 70)))
    rest = chance.choices(range(1, 30), k=chance.randint(1, 19))
    return beginning + rest + ([chance.choice((POISON, NAN))] if chance.random() < 0.05 else [])


class Shortages:
    """A fault that now and then says that memory ran out, before the moves or after them."""

    def __init__(self, chance: random.Random, often: float) -> None:
        self.chance = chance
        self.often = often

    def __call__(self, batch: Batch, moved: bool) -> None:
        if self.chance.random() < self.often:
            raise torch.OutOfMemoryError("by chance")


def walk(bench: Bench, chance: random.Random, steps: int) -> list[tuple[Box, dict]]:
    sent: list[tuple[Box, dict]] = []
    ids: list[int] = []
    for _ in range(steps):
        if chance.random() < 0.3:
            options = {"ids": prompt(chance), "max_tokens": chance.randint(0, 50), "ends": frozenset({END})}
            options |= {"prompt_logprobs": 0} if chance.random() < 0.1 else {}
            box = Box()
            late = {"deadline": time.monotonic() + 0.002} if chance.random() < 0.1 else {}
            ids.append(bench.submit_to(box, **options, **late))
            sent.append((box, options))
        if ids and chance.random() < 0.05:
            bench.engine.cancel(chance.sample(ids, min(len(ids), 2)))
        if bench.engine.loop.scheduler.running and chance.random() < 0.05:
            bench.engine.loop.scheduler.preempt(chance.choice(bench.engine.loop.scheduler.running))
        bench.step()
    bench.finish()
    return sent


@pytest.mark.parametrize("often", (0.0, 0.02), ids=("enough memory", "shortages"))
@pytest.mark.parametrize("name", SETTINGS)
def test_a_random_walk_changes_no_answer(name: str, often: float) -> None:
    chance = random.Random(f"{name} {often}")
    runner = FakeRunner(**SETTINGS[name])
    bench = Bench(runner)
    runner.fault = Shortages(chance, often)
    sent = walk(bench, chance, 600)
    assert len(sent) > 100
    for box, options in sent:
        assert box.ended
        right = bench.alone(**options)
        if box.reason in ("stop", "length"):
            assert box.ids == right
            asked = "prompt_logprobs" in options and not runner.encodes
            assert [score.logprob for score in box.records[0].prompt][1:] == (
                scores(options["ids"]) if asked else []
            )
        else:
            assert box.ids == right[: len(box.ids)]
            assert box.records[-1].error is None or {POISON, NAN} & set(options["ids"]) or often
    assert not bench.engine.loop.rows.live and bench.engine.stats().waiting_tokens == 0
