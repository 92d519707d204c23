"""Each kernel that can be had, on a real device: right, timed, and right again when it is replayed."""

import logging
from dataclasses import replace

import pytest
import torch

from inference.model.packed.cuda import Recorder
from inference.model.packed.kernels.asked import Asked
from inference.model.packed.kernels.index import Index, name_on
from inference.model.packed.kernels.proof import allowed, error, sampled
from inference.model.packed.kernels.table import KERNELS, Row, imported
from inference.model.packed.plain import plain
from inference.model.unfit import Unfit

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

LLAMA = Asked(torch.device("cuda", 0), torch.bfloat16, 32, 8, 128, 128, 128**-0.5, None, None, None)
SHAPES = {
    "llama": LLAMA,
    "qwen, of 7 heads to one": replace(LLAMA, heads=28, groups=4),
    "phi, of 80": replace(LLAMA, groups=32, key_width=80, value_width=80, scale=80**-0.5),
    "falcon, of 71 heads to one": replace(LLAMA, heads=71, groups=1, key_width=64, value_width=64),
    "mistral, with a window": replace(LLAMA, window=4096),
    "gemma, with softcap": replace(LLAMA, heads=8, groups=4, key_width=256, value_width=256, softcap=50.0),
    "gpt-oss, with sinks": replace(LLAMA, key_width=64, value_width=64, window=128, sinks=torch.bfloat16),
    "deepseek, of unlike widths": replace(LLAMA, heads=16, groups=16, key_width=192),
    "in half precision": replace(LLAMA, dtype=torch.float16),
    "in single precision": replace(LLAMA, dtype=torch.float32),
}
OURS = "triton"  # which has to do them all


@pytest.mark.parametrize("row", KERNELS, ids=lambda row: row.name)
@pytest.mark.parametrize("asked", SHAPES.values(), ids=SHAPES.keys())
@torch.inference_mode()
def test_a_kernel_is_right_or_says_that_it_cannot(row: Row, asked: Asked) -> None:
    try:
        found = error(imported(row.name), asked, row.size)
    except (ImportError, Unfit, RuntimeError) as raised:
        assert row.name != OURS, raised
        pytest.skip(f"{row.name}: {raised}")
    logging.getLogger(__name__).info("%s error=%.1e", row.name, found)
    assert found <= allowed(asked)


@pytest.mark.parametrize("row", [row for row in KERNELS if row.captures], ids=lambda row: row.name)
@torch.inference_mode()
def test_a_kernel_is_replayed_for_rows_that_have_grown(row: Row) -> None:
    """Recorded with short rows, told of longer ones in the same tensors."""

    sample = sampled(LLAMA, ((1, 300), (1, 90), (1, 517)), row.size)
    device, line = sample.query.device, sample.line
    index = Index(3, max(len(span.pages) for span in line.spans), device, widest=1, longest=1024)
    index.fill([span._replace(length=span.length // 2) for span in line.spans])
    static = replace(line, derived={name_on(device): index})
    try:
        kernel = imported(row.name)
        kernel(sample.query, sample.pages, static, **sample.options)
    except (ImportError, RuntimeError) as raised:
        assert row.name != OURS, raised
        pytest.skip(f"{row.name}: {raised}")
    play = Recorder(device)(lambda: kernel(sample.query, sample.pages, static, **sample.options))
    index.fill(line.spans)
    true = plain(sample.query, sample.pages, line, **sample.options)
    assert (play().float() - true.float()).abs().max() <= allowed(LLAMA)
