"""The fastest of the correct kernels is selected, and the log says why the others are not."""

import logging
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from inference.model.batch import UnsupportedModel
from inference.model.paged.attention import AttentionKernel, AttentionParams
from inference.model.paged.attn_metadata import AttnMetadata
from inference.model.paged.kernels import select as select_module
from inference.model.paged.kernels import timing
from inference.model.paged.kernels.select import (
    DEFAULT,
    KERNELS,
    KernelEntry,
    SelectedKernel,
    check_capability,
    import_kernel,
    select_kernel,
)
from inference.model.paged.kernels.shapes import AttentionShape, attention_shapes
from inference.model.paged.kv_pool import LayerKV
from inference.model.paged.sdpa import sdpa_kernel


def right(
    query: torch.Tensor, pages: LayerKV, metadata: AttnMetadata, params: AttentionParams
) -> torch.Tensor:
    return sdpa_kernel(query, pages, metadata, params)


def faster(
    query: torch.Tensor, pages: LayerKV, metadata: AttnMetadata, params: AttentionParams
) -> torch.Tensor:
    return sdpa_kernel(query, pages, metadata, params)


def wrong(
    query: torch.Tensor, pages: LayerKV, metadata: AttnMetadata, params: AttentionParams
) -> torch.Tensor:
    return sdpa_kernel(query, pages, metadata, params) + 0.1


def broken(
    query: torch.Tensor, pages: LayerKV, metadata: AttnMetadata, params: AttentionParams
) -> torch.Tensor:
    raise RuntimeError("no kernel image is available")


SPEEDS = {sdpa_kernel: 1.0, right: 2.0, faster: 3.0, wrong: 9.0, broken: 9.0}


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    torch.manual_seed(0)
    settings = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
    return LlamaForCausalLM(LlamaConfig(**settings, num_attention_heads=4, num_key_value_heads=2)).eval()


def select(model: PreTrainedModel, *rows: KernelEntry) -> SelectedKernel:
    def find(name: str) -> AttentionKernel:
        if name not in globals():
            raise ImportError(f"no module named {name}")
        kernel: AttentionKernel = globals()[name]
        return kernel

    def times(kernel: Any, shapes: Counter[AttentionShape], size: int, captures: bool) -> list[float]:
        return [1 / SPEEDS[kernel], 2 / SPEEDS[kernel]]

    return select_kernel(model, rows, find, times)


def test_a_model_lists_the_attention_shapes_it_needs(model: PreTrainedModel) -> None:
    cpu, full = torch.device("cpu"), torch.float32
    assert attention_shapes(model) == {AttentionShape(cpu, full, 4, 2, 8, 8, 8**-0.5, None, None, None): 2}


def test_the_fastest_correct_kernel_is_selected(
    model: PreTrainedModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rows = [KernelEntry(name, "cpu", 16, False) for name in ("absent", "right", "wrong", "faster", "broken")]
    assert select(model, *rows).kernel is faster
    messages = [message.removeprefix("llama: attention kernel") for message in caplog.messages]
    assert messages[0] == " absent rejected: ImportError: no module named absent"
    assert messages[1].startswith(" right: 2.0x as fast as sdpa, error ")
    assert messages[2] == " wrong rejected: ArithmeticError: error 1e-01 exceeds the 1e-04 allowed"
    assert messages[3].startswith(" faster: 3.0x as fast as sdpa, error ")
    assert messages[4] == " broken rejected: RuntimeError: no kernel image is available"
    assert messages[5:] == ["llama: selected attention kernel faster, pages of 16 tokens"]


def test_a_kernel_sets_the_page_size(model: PreTrainedModel) -> None:
    kernel = select(model, KernelEntry("right", "cpu", 256, True))
    assert (kernel.page_size, kernel.supports_cuda_graphs) == (256, True)


def test_larger_pages_need_a_larger_speedup(model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SPEEDS, faster, 2.1)
    rows = KernelEntry("right", "cpu", 16, True), KernelEntry("faster", "cpu", 256, True)
    assert select(model, *rows).kernel is right
    monkeypatch.setitem(SPEEDS, faster, 2.3)
    assert select(model, *rows).kernel is faster


def test_a_marginal_speedup_keeps_the_default_kernel(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SPEEDS, right, 1.02)
    assert select(model, KernelEntry("right", "cpu", 16, True)) is DEFAULT


def test_a_kernel_is_not_tried_on_a_gpu_that_is_too_old_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's takes minutes to compile for GPUs without bfloat16, and is slow there."""
    capabilities = {torch.device("cuda", 0): (9, 0), torch.device("cuda", 1): (7, 5)}
    monkeypatch.setattr(torch.cuda, "get_device_capability", capabilities.__getitem__)
    shape = AttentionShape(torch.device("cuda", 0), torch.float16, 4, 2, 8, 8, 1.0, None, None, None)
    triton = next(row for row in KERNELS if row.name == "triton")
    check_capability(triton, [shape])
    with pytest.raises(UnsupportedModel, match=r"needs compute capability 8\.0, cuda:1 has 7\.5"):
        check_capability(triton, [shape, replace(shape, device=torch.device("cuda", 1))])


def test_ranks_do_not_let_their_clocks_decide(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select_module, "is_sharded", lambda: True)
    rows = [KernelEntry(name, "cpu", 16, True) for name in ("broken", "right", "faster")]
    assert select(model, *rows).kernel is right


def test_only_the_plain_kernel_is_available_on_the_cpu(model: PreTrainedModel) -> None:
    assert select_kernel(model) is DEFAULT


def test_a_kernel_is_timed_for_each_workload(model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "NUM_REPEATS", 1)
    monkeypatch.setattr(timing, "CALLS_PER_REPEAT", 1)
    seconds = timing.times(sdpa_kernel, attention_shapes(model), 16, False)
    assert len(seconds) == len(timing.WORKLOADS) and min(seconds) > 0
    assert timing.speed_ratio([1.0, 2.0], [4.0, 2.0]) == pytest.approx(2.0)


def test_an_unavailable_kernel_raises_import_error() -> None:
    """Without a GPU no kernel can be imported; where one can, it is a function."""
    for row in KERNELS:
        try:
            assert callable(import_kernel(row.name))
        except ImportError as error:
            assert str(error)
