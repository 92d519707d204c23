"""Our Triton kernel against the plain one, computed by Triton's interpreter where there is no GPU."""

import os
from typing import Any

import pytest
import torch

from inference.model.packed.kernels.index import index_of
from inference.model.packed.plain import plain
from tests.model.packed.kernels.pages import asked, line_of, widened

if torch.cuda.is_available():
    pytest.skip("the kernel is compiled here: see test_on_gpu.py", allow_module_level=True)
os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
pytest.importorskip("triton", reason="comes with the CUDA build of torch alone")

from inference.model.packed.kernels import triton as ours

MIXED = [(1, 1), (1, 40), (19, 19), (5, 70), (1, 16)]
HALF, FULL = torch.float16, torch.float32
ALLOWED = {HALF: 6e-3, FULL: 2e-5}
CASES: dict[str, dict[str, Any]] = {
    "alone": {"rows": [(1, 90)], "parts": 8},
    "mixed": {},
    "half precision": {"dtype": HALF},
    "a window": {"window": 7},
    "a window in parts": {"window": 37, "parts": 2},
    "softcap and sinks": {"softcap": 2.0, "sinks": True, "parts": 4},
    "odd widths": {"group": 7, "D": 80, "E": 40},
    "one head of keys for many": {"G": 1, "group": 20, "D": 20, "E": 20},
    "large pages": {"size": 256},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # lanes that hold no query divide 0 by 0
def test_the_triton_kernel_computes_what_the_plain_one_does(case: dict[str, Any]) -> None:
    defaults = {"rows": MIXED, "size": 16, "G": 2, "group": 2, "D": 32, "E": 32, "dtype": FULL, "parts": 1}
    of = defaults | {"window": None, "softcap": None, "sinks": False} | case
    line = line_of(of["rows"], of["size"])
    query, pages = asked(line, of["G"], of["group"], of["D"], of["E"], of["dtype"])
    sinks = torch.randn(query.shape[1]).to(of["dtype"]) if of["sinks"] else None
    options = {"scale": of["D"] ** -0.5, "window": of["window"], "softcap": of["softcap"], "sinks": sinks}
    found = ours.launch(query, pages, index_of(line, query.device), parts=of["parts"], **options)
    query, pages = widened(query, pages, options)
    true = plain(query, pages, line, **options)
    assert found.dtype == of["dtype"] and found.shape == true.shape
    assert (found.float() - true).abs().max() <= ALLOWED[of["dtype"]]


def test_few_programs_are_split_and_many_are_not() -> None:
    assert ours.num_parts(programs=8, reach=8192, processors=132) == 32
    assert ours.num_parts(programs=64, reach=8192, processors=132) == 4
    assert ours.num_parts(programs=8, reach=300, processors=132) == 1
    assert ours.num_parts(programs=512, reach=8192, processors=132) == 1
