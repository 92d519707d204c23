"""Steps that decode with adapters are replayed: adapters come, go and take turns between the replays."""

import ctypes
import logging
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from inference.model.batch import Batch, make_batch
from inference.model.lora.delta import AffineDelta, DeltaChain, LoraDelta
from inference.model.lora.graph_runner import AdapterGraphRunner, import_low_rank_kernel
from inference.model.lora.runner import AdapterRunner
from inference.model.lora.weights import AdapterWeights
from inference.model.paged import cuda
from inference.model.paged.captured_graph import DecodeGraph, MixedGraph
from inference.model.paged.kv_pool import PAGE_SIZE
from inference.model.paged.runner import PagedRunner
from tests.model.lora.random_adapters import merged, random_adapter
from tests.model.paged.recorded_runner import (
    CLOSE,
    PAGES,
    eager_recorder,
    one_token_rows,
    record_runner,
    runner_of,
)
from tests.tiny_models.families import VOCAB, tiny

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def add_by_address(x: Tensor, output: Tensor, token_slots: Tensor, table: Tensor, max_rank: int) -> None:
    """An AddLowRank that reads the pairs from the addresses of its table, as the kernel does."""
    for token, slot in enumerate(token_slots.tolist()):
        a, b_t, rank = table[slot].tolist()
        if rank:
            low_rank = read_floats(a, rank, x.shape[1]) @ x[token]
            output[token] += low_rank @ read_floats(b_t, rank, output.shape[1])


def read_floats(address: int, rows: int, columns: int) -> Tensor:
    values = (ctypes.c_float * (rows * columns)).from_address(address)
    return torch.frombuffer(values, dtype=torch.float32).view(rows, columns)


def graph_runner(device: str, wrong: bool = False, max_batch_tokens: int = 0) -> AdapterRunner:
    """An AdapterRunner of a tiny model whose steps with adapters may be replayed."""
    model = tiny("llama").to(device)
    recorder = eager_recorder if device == "cpu" else cuda.CudaGraphRecorder(model.device)
    base = record_runner(model, recorder, max_batch_tokens)
    runner = AdapterRunner(model, base)
    kernel = import_low_rank_kernel(model.device) or add_by_address
    runner._delta_runner = AdapterGraphRunner(model, base, runner.modules, ignore if wrong else kernel)
    return runner


def ignore(*arguments: object) -> None:
    """An AddLowRank that adds nothing."""


def load(runner: AdapterRunner, *numbers: int) -> None:
    for number in numbers:
        runner.add(adapter := random_adapter(runner.model, number))
        runner.use_graphs(adapter)


def adapted_rows(*numbers: int) -> Batch:
    batch = one_token_rows(len(numbers))
    batch.adapter_ids.extend(numbers)
    return batch


def check_rows(runner: AdapterRunner, *numbers: int) -> None:
    """Compare a step in which the rows have these adapters with models that have them merged."""
    logits = runner.forward(adapted_rows(*numbers))
    device = str(runner.model.device.type)
    for row, number in enumerate(numbers):
        adapter = runner.adapters.get(number)
        model = merged(device, None if adapter is None else random_adapter(runner.model, number))
        expected = runner_of(PagedRunner, model).forward(one_token_rows(len(numbers)))[row]
        assert (logits[row] - expected).abs().max() < CLOSE * expected.std()


@pytest.mark.parametrize("device", DEVICES)
def test_replays_compute_the_adapters_that_are_loaded_then(device: str) -> None:
    runner = graph_runner(device)
    load(runner, 1, 2)
    check_rows(runner, 1, 0, 2)
    graphs = dict(runner.delta_runner.graphs)
    check_rows(runner, 2, 2, 1)
    runner.remove(1)
    load(runner, 3)
    check_rows(runner, 3, 2, 0)
    check_rows(runner, 0, 0, 3, 2)
    assert list(graphs) == [(DecodeGraph, 4)] and None not in graphs.values()
    assert runner.delta_runner.graphs == graphs, "the same graph replays every step of its size"


@pytest.mark.parametrize("device", DEVICES)
def test_a_graph_captured_while_serving_leaves_the_pages_of_sequences(device: str) -> None:
    runner = graph_runner(device)
    runner.forward(one_token_rows(5))
    layers = runner.pool.layers.values()
    before = [(kv.keys[:PAGES].clone(), kv.values[:PAGES].clone()) for kv in layers]
    load(runner, 1)
    delta_runner = runner.delta_runner
    assert (
        isinstance(delta_runner, AdapterGraphRunner) and delta_runner.try_capture(DecodeGraph, 4) is not None
    )
    for kv, (keys, values) in zip(layers, before, strict=True):
        assert torch.equal(kv.keys[:PAGES], keys) and torch.equal(kv.values[:PAGES], values)
        assert keys.any()


def test_wrong_graphs_are_rejected_and_the_step_is_computed_directly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runner = graph_runner("cpu", wrong=True)
    load(runner, 1, 2)
    with caplog.at_level(logging.INFO, logger="inference"):
        check_rows(runner, 1, 2)
    assert runner.delta_runner.graphs == {(DecodeGraph, 2): None}
    assert "no DecodeGraph of 2 tokens with adapters: ArithmeticError: error" in caplog.text


def test_an_adapter_that_changes_more_than_low_rank_pairs_has_no_slot() -> None:
    runner = graph_runner("cpu")
    adapter = random_adapter(runner.model, 1)
    name, pair = next(iter(adapter.deltas.items()))
    factor = torch.full((pair.b_t.shape[1],), 2.0)
    changed = AdapterWeights(1, {name: DeltaChain([AffineDelta(factor, None), pair])}, has_effect=True)
    runner.add(changed)
    runner.use_graphs(changed)
    runner.forward(adapted_rows(1, 0))
    assert not runner.delta_runner.graphs and not runner.delta_runner.slots.adapters


def test_more_modules_or_a_higher_rank_make_new_graphs() -> None:
    runner = graph_runner("cpu")
    every_module = random_adapter(runner.model, 1)
    fewer = AdapterWeights(2, dict(list(random_adapter(runner.model, 2).deltas.items())[:2]), has_effect=True)
    runner.add(fewer)
    runner.use_graphs(fewer)
    runner.forward(adapted_rows(2, 0))
    assert list(runner.delta_runner.graphs) == [(DecodeGraph, 2)]
    runner.add(every_module)
    runner.use_graphs(every_module)
    assert not runner.delta_runner.graphs
    check_rows(runner, 1, 0)


@pytest.mark.parametrize("device", DEVICES)
def test_modules_of_adapters_that_are_gone_are_part_of_new_graphs(device: str) -> None:
    """Their tables stay, so that a later adapter of them needs no new graph."""
    runner = graph_runner(device)
    first, second, third = (random_adapter(runner.model, number) for number in (1, 2, 3))
    names = list(first.deltas)
    for adapter, changed in ((first, names[:2]), (second, names[2:4]), (third, names[1:3])):
        adapter.deltas = {name: adapter.deltas[name] for name in changed}
        runner.add(adapter)
        runner.use_graphs(adapter)
        logits = runner.forward(adapted_rows(adapter.number, 0)).clone()
        assert runner.delta_runner.graphs[DecodeGraph, 2] is not None
        expected = runner_of(PagedRunner, merged(device, adapter)).forward(one_token_rows(2))[0]
        assert (logits[0] - expected).abs().max() < CLOSE * expected.std()
        runner.remove(adapter.number)


@pytest.mark.parametrize("device", DEVICES)
def test_a_step_with_a_prompt_is_replayed(device: str) -> None:
    """The output layer has a pair, too: it gets the last token of each row only."""
    runner = graph_runner(device, max_batch_tokens=64)
    model = runner.model
    for number in (1, 2):
        adapter = random_adapter(model, number)
        pair = LoraDelta(*(torch.randn(*shape, device=device) for shape in ((3, 32), (VOCAB, 3))))
        runner.add(adapter := replace(adapter, deltas={**adapter.deltas, "lm_head": pair}))
        runner.use_graphs(adapter)
    batch = make_batch(
        range(23),
        (0, 1, 21, 22, 23),
        (0, 0, 0, 0),
        range(4),
        (0, 20, 21, 22),
        page_table=((0,), (1, 2), (3,), (4,)),
        page_size=PAGE_SIZE,
    )
    batch.adapter_ids.extend((1, 2, 0, 1))
    logits = runner.forward(batch).clone()
    assert list(runner.delta_runner.graphs) == [(MixedGraph, 32)]
    assert runner.delta_runner.graphs[MixedGraph, 32] is not None
    runner.delta_runner.slots.remove(1)
    expected = runner.forward(batch)
    assert (logits - expected).abs().max() < CLOSE * expected.std()
