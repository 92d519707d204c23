"""Faults that a kernel may have, one token more or less among them: the proof sees each."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from inference.model.packed.kernels.asked import Asked
from inference.model.packed.kernels.proof import allowed, error
from inference.model.packed.line import Line
from inference.model.packed.plain import plain
from inference.model.packed.pool import Pages

CPU = torch.device("cpu")
ASKED = Asked(CPU, torch.bfloat16, 4, 2, 32, 32, 32**-0.5, None, None, None)
EVERYTHING = replace(ASKED, window=40, softcap=30.0, sinks=torch.bfloat16)

Options = dict[str, Any]
Fault = Callable[[Line, Options], tuple[Line, Options]]


def longer(line: Line, by: int) -> Line:
    """Rows that see `by` tokens more than they should, as far as their pages reach."""
    spans = [
        span._replace(length=max(span.end - span.start, min(span.length + by, len(span.pages) * line.size)))
        for span in line.spans
    ]
    return replace(line, spans=spans, derived={})


FAULTS: dict[str, Fault] = {
    "sees a token too many": lambda line, options: (longer(line, 1), options),
    "sees not itself": lambda line, options: (longer(line, -1), options),
    "a wider window": lambda line, options: (line, options | {"window": options["window"] + 1}),
    "a narrower window": lambda line, options: (line, options | {"window": options["window"] - 1}),
    "no window": lambda line, options: (line, options | {"window": None}),
    "no softcap": lambda line, options: (line, options | {"softcap": None}),
    "no sinks": lambda line, options: (line, options | {"sinks": None}),
    "another scale": lambda line, options: (line, options | {"scale": options["scale"] * 1.1}),
}


def wide(query: torch.Tensor, pages: Pages, line: Line, **options: Any) -> torch.Tensor:
    """A good kernel: it computes in float32, and rounds once."""
    if options["sinks"] is not None:
        options["sinks"] = options["sinks"].float()
    pages = Pages(pages.keys.float(), pages.values.float())
    return plain(query.float(), pages, line, **options).to(query.dtype)


@pytest.mark.parametrize("asked", [ASKED, EVERYTHING, replace(ASKED, scale=1.0, window=300)], ids=str)
@pytest.mark.parametrize("size", [16, 256])
def test_a_kernel_without_fault_is_proved_right(asked: Asked, size: int) -> None:
    assert error(wide, asked, size) <= allowed(asked)


def test_the_plain_kernel_is_right_in_single_precision() -> None:
    asked = replace(EVERYTHING, dtype=torch.float32, sinks=torch.float32)
    assert error(plain, asked, 16) <= 1e-6


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_shows(fault: Fault) -> None:
    def kernel(query: torch.Tensor, pages: Pages, line: Line, **options: Any) -> torch.Tensor:
        line, options = fault(line, options)
        return wide(query, pages, line, **options)

    assert not error(kernel, EVERYTHING, 16) <= 3 * allowed(EVERYTHING)


def test_what_is_not_a_number_shows() -> None:
    def kernel(query: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return query * float("nan")

    assert not error(kernel, ASKED, 16) <= allowed(ASKED)
