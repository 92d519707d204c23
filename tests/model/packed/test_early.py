"""Recorded steps that are begun before the tokens of the last are known: an engine's answers are as ever."""

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.engine.sequence import Task
from inference.model.batch import Batch
from inference.model.packed import cuda
from inference.model.packed.graphs import GraphRunner
from inference.sampling import Sampling
from tests.engine.conftest import Box
from tests.families import VOCAB, tiny
from tests.model.packed.test_graphs import recorded, traced

GREEDY, DRAWN = Sampling(greedy=True), Sampling(temperature=0.9, top_p=0.95)
TASKS = [
    Task(ids, 12 + 5 * seed, sampling, seed=seed, logprobs=2, ends=frozenset(range(3, 9)), min_tokens=4)
    for seed, (ids, sampling) in enumerate(
        [((5, 6, 7), GREEDY), ((11,) * 20, DRAWN), ((9, 8), GREEDY), ((40, 41, 42), DRAWN), ((60,), DRAWN)]
    )
]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_steps_begun_early_and_replayed_answer_as_ever(device: str) -> None:
    model = tiny("mistral").to(device)
    recorder = traced if device == "cpu" else cuda.recorder(model)
    runner = recorded(model, recorder)
    early, plain = answers(runner, True), answers(runner, False)
    assert [(box.ids, box.reason) for box in early] == [(box.ids, box.reason) for box in plain]
    for one, other in zip(early, plain, strict=True):
        ours, theirs = ([p for record in box.records for p in record.logprobs] for box in (one, other))
        assert ours == pytest.approx(theirs, abs=1e-3)


@torch.inference_mode()
def answers(runner: GraphRunner, overlaps: bool) -> list[Box]:
    runner.overlaps = overlaps
    engine = Engine(runner, Sampler(VOCAB), max_batch_tokens=64, max_queued_tokens=10_000)
    began: list[Batch] = []
    forward, runner.forward = runner.forward, lambda batch: (began.append(batch), forward(batch))[1]
    boxes = [Box() for _ in TASKS]
    engine.submit(TASKS, boxes)
    while engine.step():
        engine.loop.seating.check()
    runner.forward = forward
    assert any(batch.coming is not None for batch in began) == overlaps
    return boxes
