"""The engine with its real sampler: requests of every kind together, and one that leaves itself nothing."""

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.engine.sequence import Task
from inference.errors import BadRequest
from inference.sampling import Sampling, Watermark, Window
from tests.engine.conftest import Box, FakeRunner

KINDS = {
    "plain": Sampling(),
    "greedy": Sampling(greedy=True),
    "typical": Sampling(typical_p=0.7, frequency_share=0.9),
    "tail free": Sampling(tfs=0.9, window=Window((3, 4, 5), 1.8, 5, slope=2.0)),
    "top a": Sampling(top_a=0.3, temperature=1.5, watermark=Watermark()),
    "ordered": Sampling(top_p=0.8, temperature=3.0, repetition=1.5, order=("top_p", "repetition")),
    "never twice": Sampling(no_repeat_ngram=2, temperature=0.3),
    "banned": Sampling(greedy=True, banned=((7,), (8, 9), (9, 10)), banned_first=frozenset((11,))),
    "allowed": Sampling(allowed=frozenset(range(5, 15)), min_p=0.01),
    "window": Sampling(greedy=True, window=Window((6,), 1.4, 3, scope="expand", within=True)),
}
EMPTY = Sampling(greedy=True, allowed=frozenset((6, 7)), no_repeat_ngram=1)


@pytest.fixture
def engine() -> Engine:
    runner = FakeRunner(max_rows=16, area=16 * 64)
    return Engine(runner, Sampler(runner.vocab), max_batch_tokens=64, max_queued_tokens=10_000)


def answers(engine: Engine, shapes: dict[str, Sampling]) -> dict[str, Box]:
    """What comes of these requests, computed together."""
    boxes = {name: Box() for name in shapes}
    tasks = [Task((3, 4, 5), 12, shape, seed=4, logprobs=2, warped=True) for shape in shapes.values()]
    engine.submit(tasks, list(boxes.values()))
    with torch.inference_mode():
        while engine.step():
            pass
    return boxes


def test_company_of_every_kind_changes_no_answer(engine: Engine) -> None:
    together = answers(engine, KINDS)
    for name, shape in KINDS.items():
        alone = answers(engine, {name: shape})[name]
        assert told(alone) == told(together[name]), name
        assert len(alone.ids) == 12
    assert len({tuple(box.ids) for box in together.values()}) > 5


def test_who_leaves_itself_nothing_fails_alone_and_by_its_own_fault(engine: Engine) -> None:
    boxes = answers(engine, {"empty": EMPTY, **KINDS})
    assert len(boxes["empty"].ids) == 2
    error = boxes["empty"].records[-1].error
    assert isinstance(error, BadRequest) and "no token is left to choose" in error.message
    assert all(boxes[name].reason == "length" for name in KINDS)
    assert engine.failing == 0


def test_what_leaves_nothing_from_the_beginning_is_refused_at_once(engine: Engine) -> None:
    task = Task((3, 4), 5, Sampling(allowed=frozenset((9,)), banned=((9,),)))
    with pytest.raises(BadRequest, match="no token is left to choose"):
        engine.submit([task], [Box()])


def told(box: Box) -> list[tuple[object, ...]]:
    return [(record.ids, record.logprobs, record.tops) for record in box.records]
