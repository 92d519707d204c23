"""Compiled layers compute what the model's layers do, share their code, and leave the model as it was."""

import gc
import shutil
import weakref
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from inference.model.batch import UnsupportedModel
from inference.model.merge_projections import merge_projections
from inference.model.paged.compiled_layers import CompiledAttention, CompiledLayers, attention_modules
from inference.model.paged.kv_pool import PAGE_SIZE, KVPool, rotate_and_store
from inference.model.paged.runner import PagedRunner
from inference.model.reference import COLUMNS, ROWS, Reference
from tests.tiny_models.families import tiny

EXACT = 1e-5  # standard deviations of a logit, in float32
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++ on a CPU")


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    """Without vector code, whose instructions the compiler first tries out, and without processes for it."""
    inductor = import_module("torch._inductor.config")  # here: each process of pytest imports this file
    counters().clear()
    torch._dynamo.reset()
    with inductor.patch({"cpp.vec_isa_ok": False, "compile_threads": 1}):
        yield
    torch._dynamo.reset()


def test_the_operator_keeps_no_model_in_memory() -> None:
    module = weakref.ref(attention_modules(tiny("llama"))[0])
    gc.collect()
    assert module() is None


def counters() -> Any:
    """What torch's compiler has counted."""
    return torch._dynamo.utils.counters


def compiled_runner(model: PreTrainedModel, fuses_rotary: bool = False, **pool_options: Any) -> PagedRunner:
    return PagedRunner(
        model,
        KVPool(ROWS * COLUMNS // PAGE_SIZE, **pool_options),
        max_sequences=ROWS,
        context=COLUMNS,
        create_attention=partial(CompiledAttention, layers=CompiledLayers(model, fuses_rotary)),
    )


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "is_fused"),
    [
        ("llama", True),
        ("gemma2", True),
        ("gpt2", False),
        ("mixtral", True),
        ("phi", False),
        ("cohere", False),
    ],
)
def test_compiled_layers_compute_what_the_model_does(family: str, is_fused: bool) -> None:
    """Rotary embedding and store are one call where a llama-like model rotates whole heads."""
    calls: list[torch.Tensor] = []

    def counting(query: torch.Tensor, *args: torch.Tensor) -> torch.Tensor:
        calls.append(query)
        return rotate_and_store(query, *args)

    model = tiny(family)
    reference = Reference(model)
    merge_projections(model, "cpu")
    runner = compiled_runner(model, fuses_rotary=True, rotary_store=counting)
    assert reference.error_of(runner) < EXACT
    assert counters()["stats"]["unique_graphs"] > 0
    assert bool(calls) == is_fused
    assert max(reference.recompute_error(row, COLUMNS) for row in range(ROWS)) < EXACT


@needs_compiler
@pytest.mark.slow
def test_all_layers_share_one_graph_in_which_merged_projections_are_one_matmul() -> None:
    assert num_library_calls(is_merged=False) - num_library_calls(is_merged=True) == 3


def num_library_calls(is_merged: bool) -> int:
    """The calls of matmuls and attention in the one graph of five layers."""
    torch._dynamo.reset()
    counters().clear()
    # No width equals a number of tokens: the compiler would take the two for one.
    model = tiny("llama", num_hidden_layers=5, head_dim=24)
    reference = Reference(model)
    if is_merged:
        merge_projections(model, "cpu")
    assert reference.error_of(compiled_runner(model)) < EXACT
    assert counters()["stats"]["unique_graphs"] == 1
    return counters()["inductor"]["extern_calls"]


def test_equal_nodes_of_a_graph_are_merged() -> None:
    module = import_module("inference.model.paged.merge_equal_nodes")  # imports the compiler
    graph = torch.fx.symbolic_trace(lambda x, w: torch.mm(x, w)[0] + torch.mm(x, w)[1])
    module.MergeEqualNodes()(graph.graph)
    graph.recompile()
    assert [node.target for node in graph.graph.nodes].count(torch.mm) == 1
    x, w = torch.randn(2, 3), torch.randn(3, 2)
    assert torch.equal(graph(x, w), (x @ w)[0] + (x @ w)[1])


def test_a_model_whose_layers_do_not_repeat_is_rejected() -> None:
    with pytest.raises(UnsupportedModel, match="repeated"):
        CompiledLayers(tiny("llama", num_hidden_layers=1))


def test_a_probe_and_the_plain_forward_pass_run_the_layers_as_they_are() -> None:
    model = tiny("llama")
    runner = compiled_runner(model)
    runner.probe()
    with runner.attention.installed():
        assert all(layer._compiled_call_impl for layer in model.model.layers)
    assert not any(layer._compiled_call_impl for layer in model.model.layers)
    assert not counters()["stats"]["unique_graphs"]
    assert isinstance(model.model.layers, nn.ModuleList)
