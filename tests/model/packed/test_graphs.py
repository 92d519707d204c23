"""Recorded steps: whatever rows join and leave, a replay computes what the step computes without.

torch's tracer stands in for the device's recorder: it too keeps the operations and the tensors, and loses
whatever the host decided.
"""

import logging
import random
from collections.abc import Callable
from functools import partial
from itertools import accumulate

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from transformers import PreTrainedModel

from inference.model.batch import Batch, Clear
from inference.model.packed import cuda
from inference.model.packed.graphs import DEPTH, GraphRunner, Recorder, counts
from inference.model.packed.kernels.index import index_of
from inference.model.packed.line import Line
from inference.model.packed.plain import plain
from inference.model.packed.pool import Pages
from inference.model.packed.runner import SIZE, PackedRunner
from tests.families import VOCAB, tiny

PAGES, CONTEXT, ROWS = 24, 64, 5
CLOSE = 1e-3  # in standard deviations of the logits


def indexed(
    query: torch.Tensor,
    pages: Pages,
    line: Line,
    *,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """A Kernel for rows of one token that asks nothing but the index where they stand, as a device's does."""
    index = index_of(line, query.device)
    R, H, _ = query.shape
    if len(index.lengths) != R or index.widest > 1:
        return plain(query, pages, line, scale=scale, window=window, softcap=softcap, sinks=sinks)
    keys, values = (
        data[index.tables.long()].flatten(1, 2).repeat_interleave(H // data.shape[2], 2)
        for data in (pages.keys, pages.values)
    )  # (R, n, H, D)
    scores = torch.einsum("rhd,rnhd->rhn", query, keys) * scale
    column, length = torch.arange(keys.shape[1], device=query.device), index.lengths[:, None]
    seen = (column < length) & (column >= length - (window or CONTEXT))
    weights = scores.masked_fill(~seen[:, None], float("-inf")).softmax(-1)
    return torch.einsum("rhn,rnhd->rhd", weights, values)


def traced(compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    compute()
    return make_fx(compute)()


def runner_of(kind: type[PackedRunner], model: PreTrainedModel) -> PackedRunner:
    return kind(model, max_rows=ROWS, context=CONTEXT, area=PAGES * SIZE, kernel=indexed)


def again(compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    return compute


def recorded(model: PreTrainedModel, recorder: Recorder) -> GraphRunner:
    runner = runner_of(GraphRunner, model)
    runner.record(recorder, CLOSE)
    return runner


class Walk:
    """Rows in pages that come and go, of tokens as many as they like; what was freed is handed out again."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.free = list(range(PAGES))
        self.rows: list[tuple[int, list[int]]] = []  # tokens held, the pages they are in

    def step(self, most: int) -> Batch:
        """Each row takes a token or a few, up to `most`; some of their logits are wanted."""
        chance = self.random
        if self.rows and chance.random() < 0.3:
            self.leave(chance.randrange(len(self.rows)))
        if not self.rows or (len(self.rows) < ROWS and chance.random() < 0.6):
            self.rows.append((0, []))
        taken = [chance.choice((1, 1, 1, most)) for _ in self.rows]
        starts = list(accumulate(taken, initial=0))
        held = [count for count, _ in self.rows]
        moves = [move for row, count in enumerate(taken) for move in self.grow(row, count)]
        every = range(starts[-1])
        return Batch(
            ids=[chance.randrange(3, VOCAB) for _ in every],
            starts=starts,
            cached=held,
            rows=range(len(taken)),
            want=every if chance.random() < 0.5 else sorted(chance.sample(every, 1)),
            moves=moves,
            tables=[list(pages) for _, pages in self.rows],
        )

    def leave(self, row: int) -> None:
        self.free += self.rows.pop(row)[1]
        self.random.shuffle(self.free)

    def grow(self, row: int, count: int) -> list[Clear]:
        held, pages = self.rows[row]
        gained = [self.free.pop() for _ in range(-(-(held + count) // SIZE) - len(pages))]
        self.rows[row] = held + count, pages + gained
        return [Clear(page) for page in gained]

    def full(self, most: int) -> None:
        """Have rows leave that could not take so many more."""
        for row in reversed(range(len(self.rows))):
            if self.rows[row][0] + most > CONTEXT:
                self.leave(row)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_replayed_steps_are_the_steps_whoever_joins_and_leaves(device: str) -> None:
    model = tiny("mistral").to(device)
    recorder = traced if device == "cpu" else cuda.recorder(model)
    replaying, computing = recorded(model, recorder), runner_of(PackedRunner, model)
    walk, sizes = Walk(seed=4), set()
    assert [recording.count for recording in replaying.recordings] == [1, 2, 4, 8]
    for turn in range(30):
        most = 3 if turn % 10 else DEPTH + 2
        walk.full(most)
        batch = walk.step(most)
        ours, truth = replaying.forward(batch), computing.forward(batch)
        sizes.add(len(batch.ids))
        assert ours.shape == truth.shape
        assert (ours - truth).abs().max() < CLOSE * truth.std()
    assert len(sizes) > 6
    for ours, theirs in zip(replaying.pool.modules.values(), computing.pool.modules.values(), strict=True):
        assert torch.allclose(ours.keys[:PAGES], theirs.keys[:PAGES], atol=1e-4)
        assert torch.allclose(ours.values[:PAGES], theirs.values[:PAGES], atol=1e-4)


def test_a_step_takes_the_smallest_recording_that_holds_it_and_finds_blank_pages() -> None:
    runner = recorded(tiny("llama"), again)
    assert all(not pages.keys[:PAGES].any() for pages in runner.pool.modules.values())
    played: list[int] = []
    for recording in runner.recordings:
        recording.play = partial(noted, recording.play, played, recording.count)
    for tokens in (1, 2, 3, 5, 8, 9):
        runner.forward(one_token_rows(tokens))
    runner.forward(Batch(range(3, 3 + DEPTH + 1), (0, DEPTH + 1), (0,), (0,), (0,), tables=((0, 1),)))
    assert played == [1, 2, 4, 8, 8]


def noted(play: Callable[[], torch.Tensor], played: list[int], count: int) -> torch.Tensor:
    played.append(count)
    return play()


def one_token_rows(count: int) -> Batch:
    rows = range(count)
    return Batch(
        range(3, 3 + count), range(count + 1), [0] * count, rows, rows, tables=[(row,) for row in rows]
    )


def unrecordable(compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    raise RuntimeError("called a synchronizing operation")


def deaf(compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """A recorder whose replay computes what it did when it was recorded."""
    logits = compute().clone()
    return lambda: logits


def short(compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """Memory for a step of two tokens and no more."""
    if compute().shape[0] > 2:
        raise torch.OutOfMemoryError
    return compute


@pytest.mark.gpu
def test_a_step_that_waits_for_the_device_is_not_recorded_and_leaves_torch_in_order() -> None:
    model = tiny("llama").to("cuda")
    waits = GraphRunner(model, max_rows=ROWS, context=CONTEXT, area=PAGES * SIZE)  # the plain kernel
    waits.record(cuda.Recorder(model.device), CLOSE)
    assert waits.recordings == ()
    torch.cuda.empty_cache()
    assert len(recorded(model, cuda.Recorder(model.device)).recordings) == 4


@pytest.mark.parametrize("recorder", [unrecordable, deaf])
def test_what_cannot_be_recorded_or_replays_wrongly_is_computed(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    model = tiny("llama")
    runner = runner_of(GraphRunner, model)
    with caplog.at_level(logging.INFO):
        runner.record(recorder, CLOSE)
    assert runner.recordings == ()
    assert "steps are not recorded" in caplog.text
    batch = one_token_rows(3)
    assert torch.allclose(runner.forward(batch), runner_of(PackedRunner, model).forward(batch))


def test_where_memory_is_short_the_smaller_steps_are_recorded() -> None:
    runner = runner_of(GraphRunner, tiny("llama"))
    runner.record(short, CLOSE)
    assert [recording.count for recording in runner.recordings] == [1, 2]


def test_a_kernel_that_asks_the_host_is_not_replayed() -> None:
    model = tiny("llama")
    runner = GraphRunner(model, max_rows=ROWS, context=CONTEXT, area=PAGES * SIZE)
    runner.record(traced, CLOSE)
    assert runner.recordings == ()


def test_steps_are_recorded_for_powers_of_two_up_to_all_rows() -> None:
    assert counts(1) == [1]
    assert counts(5) == [1, 2, 4, 8]
    assert counts(16) == [1, 2, 4, 8, 16]
    assert counts(5000)[-1] == 256
