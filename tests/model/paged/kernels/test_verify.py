"""Faults that a kernel may have, such as one token more or less: verification detects each."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from inference.model.paged.attention import AttentionParams
from inference.model.paged.attn_metadata import AttnMetadata
from inference.model.paged.kernels.shapes import AttentionShape
from inference.model.paged.kernels.verify import max_error, tolerance_of
from inference.model.paged.kv_pool import LayerKV
from inference.model.paged.sdpa import sdpa_kernel

CPU = torch.device("cpu")
SHAPE = AttentionShape(CPU, torch.bfloat16, 4, 2, 32, 32, 32**-0.5, None, None, None)
EVERYTHING = replace(SHAPE, window=40, softcap=30.0, sinks=torch.bfloat16)

Fault = Callable[[AttnMetadata, AttentionParams], tuple[AttnMetadata, AttentionParams]]


def longer(metadata: AttnMetadata, by: int) -> AttnMetadata:
    """Rows that see `by` more tokens than they should, as far as their pages reach."""
    spans = [
        span._replace(
            length=max(span.end - span.start, min(span.length + by, len(span.pages) * metadata.page_size))
        )
        for span in metadata.spans
    ]
    return replace(metadata, spans=spans, per_step_cache={})


FAULTS: dict[str, Fault] = {
    "sees a token too many": lambda metadata, params: (longer(metadata, 1), params),
    "sees not itself": lambda metadata, params: (longer(metadata, -1), params),
    "a wider window": lambda metadata, params: (metadata, params._replace(window=params.window + 1)),
    "a narrower window": lambda metadata, params: (metadata, params._replace(window=params.window - 1)),
    "no window": lambda metadata, params: (metadata, params._replace(window=None)),
    "no softcap": lambda metadata, params: (metadata, params._replace(softcap=None)),
    "no sinks": lambda metadata, params: (metadata, params._replace(sinks=None)),
    "another scale": lambda metadata, params: (metadata, params._replace(scale=params.scale * 1.1)),
}


def wide(
    query: torch.Tensor, pages: LayerKV, metadata: AttnMetadata, params: AttentionParams
) -> torch.Tensor:
    """A correct kernel: it computes in float32 and rounds once."""
    if params.sinks is not None:
        params = params._replace(sinks=params.sinks.float())
    pages = LayerKV(pages.keys.float(), pages.values.float())
    return sdpa_kernel(query.float(), pages, metadata, params).to(query.dtype)


@pytest.mark.parametrize("shape", [SHAPE, EVERYTHING, replace(SHAPE, scale=1.0, window=300)], ids=str)
@pytest.mark.parametrize("size", [16, 256])
def test_a_correct_kernel_is_verified(shape: AttentionShape, size: int) -> None:
    assert max_error(wide, shape, size) <= tolerance_of(shape)


def test_the_plain_kernel_is_exact_in_single_precision() -> None:
    shape = replace(EVERYTHING, dtype=torch.float32, sinks=torch.float32)
    assert max_error(sdpa_kernel, shape, 16) <= 1e-6


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_detected(fault: Fault) -> None:
    def kernel(
        query: torch.Tensor, pages: LayerKV, metadata: AttnMetadata, params: AttentionParams
    ) -> torch.Tensor:
        metadata, params = fault(metadata, params)
        return wide(query, pages, metadata, params)

    assert not max_error(kernel, EVERYTHING, 16) <= 3 * tolerance_of(EVERYTHING)


def test_nan_is_detected() -> None:
    def kernel(query: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return query * float("nan")

    assert not max_error(kernel, SHAPE, 16) <= tolerance_of(SHAPE)
