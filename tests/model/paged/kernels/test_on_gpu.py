"""Each available kernel on a real device: correct, timed, and correct when its CUDA graph is replayed."""

import logging
from dataclasses import replace

import pytest
import torch

from inference.model.batch import UnsupportedModel
from inference.model.paged.cuda import CudaGraphRecorder
from inference.model.paged.kernels.page_table import PageTable, cache_key
from inference.model.paged.kernels.select import KERNELS, KernelEntry, import_kernel
from inference.model.paged.kernels.shapes import AttentionShape
from inference.model.paged.kernels.verify import make_sample, max_error, tolerance_of
from inference.model.paged.sdpa import sdpa_kernel

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

LLAMA = AttentionShape(torch.device("cuda", 0), torch.bfloat16, 32, 8, 128, 128, 128**-0.5, None, None, None)
SHAPES = {
    "llama": LLAMA,
    "qwen, of 7 heads to one": replace(LLAMA, num_heads=28, num_kv_heads=4),
    "phi, of 80": replace(LLAMA, num_kv_heads=32, head_dim=80, value_head_dim=80, scale=80**-0.5),
    "falcon, of 71 heads to one": replace(
        LLAMA, num_heads=71, num_kv_heads=1, head_dim=64, value_head_dim=64
    ),
    "mistral, with a window": replace(LLAMA, window=4096),
    "gemma, with softcap": replace(
        LLAMA, num_heads=8, num_kv_heads=4, head_dim=256, value_head_dim=256, softcap=50.0
    ),
    "gpt-oss, with sinks": replace(LLAMA, head_dim=64, value_head_dim=64, window=128, sinks=torch.bfloat16),
    "deepseek, of unlike widths": replace(LLAMA, num_heads=16, num_kv_heads=16, head_dim=192),
    "in half precision": replace(LLAMA, dtype=torch.float16),
    "in single precision": replace(LLAMA, dtype=torch.float32),
}
OURS = "triton"  # must support every shape


@pytest.mark.parametrize("row", KERNELS, ids=lambda row: row.name)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@torch.inference_mode()
def test_a_kernel_is_correct_or_says_what_it_does_not_support(
    row: KernelEntry, shape: AttentionShape
) -> None:
    try:
        largest_error = max_error(import_kernel(row.name), shape, row.page_size)
    except (ImportError, UnsupportedModel, RuntimeError) as raised:
        assert row.name != OURS, raised
        pytest.skip(f"{row.name}: {raised}")
    logging.getLogger(__name__).info("%s error=%.1e", row.name, largest_error)
    assert largest_error <= tolerance_of(shape)


@pytest.mark.parametrize(
    "row", [row for row in KERNELS if row.supports_cuda_graphs], ids=lambda row: row.name
)
@torch.inference_mode()
def test_a_kernel_is_replayed_for_rows_that_have_grown(row: KernelEntry) -> None:
    """Captured with short rows, replayed with longer ones in the same tensors."""

    sample = make_sample(LLAMA, ((1, 300), (1, 90), (1, 517)), row.page_size)
    device, metadata = sample.query.device, sample.metadata
    index = PageTable(
        3, max(len(span.pages) for span in metadata.spans), device, max_query_len=1, max_seq_len=1024
    )
    index.fill([span._replace(length=span.length // 2) for span in metadata.spans])
    static = replace(metadata, per_step_cache={cache_key(device): index})
    try:
        kernel = import_kernel(row.name)
        kernel(sample.query, sample.kv, static, sample.params)
    except (ImportError, RuntimeError) as raised:
        assert row.name != OURS, raised
        pytest.skip(f"{row.name}: {raised}")
    replay = CudaGraphRecorder(device)(lambda: kernel(sample.query, sample.kv, static, sample.params))
    index.fill(metadata.spans)
    expected = sdpa_kernel(sample.query, sample.kv, metadata, sample.params)
    assert (replay().float() - expected.float()).abs().max() <= tolerance_of(LLAMA)
