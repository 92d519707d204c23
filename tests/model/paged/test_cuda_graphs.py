"""Recorded steps: whichever rows join and leave, a replay computes what the step computes directly.

torch's tracer stands in for the device's graph recorder: it too records the operations and the tensors, and
drops every decision made on the host.
"""

import logging
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import accumulate

import pytest
import torch

from inference.model.batch import Batch, Clear, make_batch
from inference.model.kv_cost import WindowGroup
from inference.model.paged import cuda
from inference.model.paged.attn_metadata import build_metadata
from inference.model.paged.captured_graph import MAX_ROW_TOKENS, Capture, DecodeGraph, MixedGraph
from inference.model.paged.cuda_graphs import (
    MAX_CAPTURE_S,
    GraphRunner,
    capture_order,
    decode_sizes,
    mixed_sizes,
)
from inference.model.paged.kv_pool import PAGE_SIZE, KVPool
from inference.model.paged.runner import PagedRunner
from tests.model.paged.recorded_runner import (
    CLOSE,
    CONTEXT,
    PAGES,
    ROWS,
    eager_recorder,
    indexed,
    one_token_rows,
    record_runner,
    runner_of,
    trace,
)
from tests.model.window_tables import with_window_table
from tests.tiny_models.families import VOCAB, tiny


class BatchWalk:
    """Rows in pages that join and leave, with any number of tokens; freed pages are handed out again."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.free = list(range(PAGES))
        self.rows: list[tuple[int, list[int]]] = []  # per row: number of tokens, pages

    def step(self, most: int) -> Batch:
        """Each row computes one token or a few, up to `most`; some of their logits are requested."""
        chance = self.random
        if self.rows and chance.random() < 0.3:
            self.leave(chance.randrange(len(self.rows)))
        if not self.rows or (len(self.rows) < ROWS and chance.random() < 0.6):
            self.rows.append((0, []))
        num_new = [chance.choice((1, 1, 1, most)) for _ in self.rows]
        starts = list(accumulate(num_new, initial=0))
        num_computed = [count for count, _ in self.rows]
        cache_ops = [move for row, count in enumerate(num_new) for move in self.grow(row, count)]
        every = range(starts[-1])
        return make_batch(
            token_ids=[chance.randrange(3, VOCAB) for _ in every],
            query_start_loc=starts,
            num_computed_tokens=num_computed,
            rows=range(len(num_new)),
            logits_indices=every if chance.random() < 0.5 else sorted(chance.sample(every, 1)),
            cache_ops=cache_ops,
            page_table=[list(pages) for _, pages in self.rows],
            page_size=PAGE_SIZE,
        )

    def leave(self, row: int) -> None:
        self.free += self.rows.pop(row)[1]
        self.random.shuffle(self.free)

    def grow(self, row: int, count: int) -> list[Clear]:
        num_computed, pages = self.rows[row]
        gained = [self.free.pop() for _ in range(-(-(num_computed + count) // PAGE_SIZE) - len(pages))]
        self.rows[row] = num_computed + count, pages + gained
        return [Clear(page) for page in gained]

    def full(self, most: int) -> None:
        """Removes the rows that cannot take `most` more tokens."""
        for row in reversed(range(len(self.rows))):
            if self.rows[row][0] + most > CONTEXT:
                self.leave(row)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("family", ["mistral", "gemma2"])
def test_replayed_steps_with_a_window_group_equal_computed_steps_without(family: str, device: str) -> None:
    model = tiny(family).to(device)
    group = WindowGroup(model.config.sliding_window, PAGES)
    recorder = trace if device == "cpu" else cuda.CudaGraphRecorder(model.device)
    pool = KVPool(PAGES, window_groups=(group,))
    replaying = GraphRunner(model, pool, max_sequences=ROWS, context=CONTEXT, kernel=indexed)
    replaying.capture_graphs(recorder, CLOSE, 32)
    computing, walk = runner_of(PagedRunner, model), BatchWalk(seed=5)
    assert [graph.count for graph in replaying.graphs] == [1, 2, 4, 8, 32]
    assert not any(kv.keys[:PAGES].any() for kv in pool.layers.values()), "captures leave pages blank"
    for turn in range(30):
        most = 3 if turn % 10 else MAX_ROW_TOKENS + 2
        walk.full(most)
        batch = walk.step(most)
        ours = replaying.forward(with_window_table(batch, group, PAGE_SIZE))
        expected = computing.forward(batch)
        assert (ours - expected).abs().max() < CLOSE * expected.std()
    assert {kv.group for kv in pool.layers.values()} == ({1} if family == "mistral" else {0, 1})
    assert not any(kv.keys[group.null_page].any() for kv in pool.layers.values() if kv.group)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_replayed_steps_equal_computed_steps_whichever_rows_join_and_leave(device: str) -> None:
    model = tiny("mistral").to(device)
    recorder = trace if device == "cpu" else cuda.CudaGraphRecorder(model.device)
    replaying, computing = record_runner(model, recorder, 64), runner_of(PagedRunner, model)
    walk, sizes = BatchWalk(seed=4), set()
    assert [recording.count for recording in replaying.graphs] == [1, 2, 4, 8, 32, 64]
    for turn in range(30):
        most = 3 if turn % 10 else MAX_ROW_TOKENS + 2
        walk.full(most)
        batch = walk.step(most)
        ours, expected = replaying.forward(batch), computing.forward(batch)
        sizes.add(len(batch.token_ids))
        assert ours.shape == expected.shape
        assert (ours - expected).abs().max() < CLOSE * expected.std()
    assert len(sizes) > 6
    for ours, theirs in zip(replaying.pool.layers.values(), computing.pool.layers.values(), strict=True):
        assert torch.allclose(ours.keys[:PAGES], theirs.keys[:PAGES], atol=1e-4)
        assert torch.allclose(ours.values[:PAGES], theirs.values[:PAGES], atol=1e-4)


def test_a_step_replays_the_smallest_graph_that_fits_and_capture_leaves_pages_blank() -> None:
    runner = record_runner(tiny("llama"), eager_recorder)
    assert all(not pages.keys[:PAGES].any() for pages in runner.pool.layers.values())
    replayed: list[int] = []
    for recording in runner.graphs:
        recording.replay_graph = partial(note_replay, recording.replay_graph, replayed, recording.count)
    for tokens in (1, 2, 3, 5, 8, 9):
        runner.forward(one_token_rows(tokens))
    runner.forward(
        make_batch(
            range(3, 3 + MAX_ROW_TOKENS + 1),
            (0, MAX_ROW_TOKENS + 1),
            (0,),
            (0,),
            (0,),
            page_table=((0, 1),),
            page_size=PAGE_SIZE,
        )
    )
    assert replayed == [1, 2, 4, 8, 8]


def test_inputs_that_one_launch_copies_have_one_dtype_and_equal_strides() -> None:
    runner = record_runner(tiny("llama"), eager_recorder, 64)
    metadata = build_metadata(prompt_and_token(3), PAGE_SIZE, runner.device)
    for graph in filter(lambda graph: graph.supports(metadata), runner.graphs):
        for target, values in graph.input_copies(metadata):
            assert target.dtype == values.dtype == torch.int64
            assert target.shape == values.shape and target.stride() == values.stride() == (1,)


def test_a_step_with_pooled_rows_is_computed_directly() -> None:
    batch = replace(one_token_rows(2), pooled_rows={1: "mean"})
    replaying = record_runner(tiny("llama"), eager_recorder)
    computing = runner_of(PagedRunner, tiny("llama"))
    replaying.forward(one_token_rows(3)), replaying.forward(batch), computing.forward(batch)
    assert torch.equal(replaying.hidden_sums, computing.hidden_sums) and len(computing.hidden_sums) == 1


def note_replay(replay: Callable[[], torch.Tensor], replayed: list[int], count: int) -> torch.Tensor:
    replayed.append(count)
    return replay()


def failing_recorder(compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    raise RuntimeError("called a synchronizing operation")


def stale_recorder(compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """A recorder whose replay returns what was computed at capture."""
    logits = compute().clone()
    return lambda: logits


def limited_recorder(compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """Has memory for steps of up to two tokens."""
    if compute().shape[0] > 2:
        raise torch.OutOfMemoryError
    return compute


@pytest.mark.gpu
def test_a_step_that_synchronizes_is_not_recorded_and_torch_stays_usable() -> None:
    model = tiny("llama").to("cuda")
    waits = GraphRunner(model, KVPool(PAGES), max_sequences=ROWS, context=CONTEXT)  # the plain kernel
    waits.capture_graphs(cuda.CudaGraphRecorder(model.device), CLOSE)
    assert waits.graphs == ()
    torch.cuda.empty_cache()
    assert len(record_runner(model, cuda.CudaGraphRecorder(model.device)).graphs) == 4


@pytest.mark.parametrize("recorder", [failing_recorder, stale_recorder])
def test_a_step_that_fails_to_record_or_replays_wrongly_is_computed(
    recorder: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    model = tiny("llama")
    runner = runner_of(GraphRunner, model)
    with caplog.at_level(logging.INFO):
        runner.capture_graphs(recorder, CLOSE)
    assert runner.graphs == ()
    assert "no DecodeGraph is used" in caplog.text
    batch = one_token_rows(3)
    assert torch.allclose(runner.forward(batch), runner_of(PagedRunner, model).forward(batch))


def test_only_smaller_steps_are_recorded_where_memory_is_short() -> None:
    runner = runner_of(GraphRunner, tiny("llama"))
    runner.capture_graphs(limited_recorder, CLOSE)
    assert [recording.count for recording in runner.graphs] == [1, 2]


class SlowRecorder:
    """A recorder whose first capture takes `first_s` seconds of its clock, and the others `other_s`."""

    def __init__(self, first_s: float, other_s: float) -> None:
        self.seconds, self.other_s, self.now = first_s, other_s, 0.0

    def __call__(self, compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        self.now += self.seconds
        self.seconds = self.other_s
        return compute


@pytest.mark.parametrize(
    ("first_s", "other_s", "sizes"),
    [
        (1.0, 1.0, [1, 2, 4, 8]),
        (10 * MAX_CAPTURE_S, 1.0, [1, 2, 4, 8]),
        (1.0, MAX_CAPTURE_S, [1, 2, 8]),
        (1.0, 10 * MAX_CAPTURE_S, [1, 8]),
    ],
)
def test_a_slow_start_loses_no_graphs_and_slow_captures_lose_the_larger_ones_first(
    first_s: float, other_s: float, sizes: list[int]
) -> None:
    runner, recorder = runner_of(GraphRunner, tiny("llama")), SlowRecorder(first_s, other_s)
    runner.capture_graphs(recorder, CLOSE, clock=lambda: recorder.now)
    assert [graph.count for graph in runner.graphs] == sizes


def test_a_kernel_that_synchronizes_is_not_replayed() -> None:
    model = tiny("llama")
    runner = GraphRunner(model, KVPool(PAGES), max_sequences=ROWS, context=CONTEXT)
    runner.capture_graphs(trace, CLOSE)
    assert runner.graphs == ()


def test_decode_steps_are_recorded_for_powers_of_two_up_to_all_rows() -> None:
    assert decode_sizes(1) == [1]
    assert decode_sizes(5) == [1, 2, 4, 8]
    assert decode_sizes(16) == [1, 2, 4, 8, 16]
    assert decode_sizes(5000)[-1] == 256


def test_mixed_steps_are_recorded_for_as_many_tokens_as_a_step_may_have() -> None:
    assert mixed_sizes(0) == []
    assert mixed_sizes(1) == mixed_sizes(32) == [32]
    assert mixed_sizes(500) == [32, 64, 128, 256, 384, 512]
    assert mixed_sizes(10**6)[-1] == 2048


def test_the_largest_graph_of_each_kind_is_captured_first_and_the_smallest_is_timed() -> None:
    sizes = [(kind.__name__[0], count) for kind, count in capture_order([1, 2, 4], [32, 64, 128])]
    assert sizes == [("M", 128), ("D", 4), ("D", 1), ("M", 64), ("M", 32), ("D", 2)]
    assert capture_order([1], []) == [(DecodeGraph, 1)]
    assert capture_order([1, 2], [32]) == [(MixedGraph, 32), (DecodeGraph, 2), (DecodeGraph, 1)]


def test_a_step_with_a_prompt_replays_a_mixed_graph_and_other_steps_a_decode_graph() -> None:
    runner = record_runner(tiny("llama"), eager_recorder, 64)
    computed = runner_of(PagedRunner, runner.model)
    replayed: list[int] = []
    for recording in runner.graphs:
        recording.replay_graph = partial(note_replay, recording.replay_graph, replayed, recording.count)
    for batch in (prompt_and_token(30), prompt_and_token(31), prompt_and_token(40), one_token_rows(3)):
        assert torch.allclose(runner.forward(batch), computed.forward(batch), atol=1e-4)
    runner.forward(replace(prompt_and_token(40), logits_indices=list(range(10))))  # more logits than rows
    assert replayed == [32, 32, 64, 4]


def prompt_and_token(count: int) -> Batch:
    """A prompt of `count` tokens beside a row of one."""
    pages = (range(1, 1 + -(-count // PAGE_SIZE)), (0,))
    return make_batch(
        range(3, 4 + count),
        (0, count, count + 1),
        (0, 0),
        (0, 1),
        (count - 1, count),
        page_table=pages,
        page_size=PAGE_SIZE,
    )


def test_wrong_mixed_graphs_leave_the_decode_graphs_in_use(caplog: pytest.LogCaptureFixture) -> None:
    runner = runner_of(GraphRunner, tiny("llama"))
    with caplog.at_level(logging.INFO):
        runner.capture_graphs(no_prompts_recorder, CLOSE, 64)
    assert [graph.count for graph in runner.graphs] == [1, 2, 4, 8]
    assert "no MixedGraph is used" in caplog.text


def no_prompts_recorder(compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """Fails for mixed graphs, whose logits are those of all rows."""
    if compute().shape[0] == ROWS:
        raise RuntimeError("not this one")
    return compute
