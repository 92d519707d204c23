"""The Triton kernel against the plain one, in Triton's interpreter where there is no GPU."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from inference.model.paged.attention import AttentionParams
from inference.model.paged.kernels.page_table import page_table_of
from inference.model.paged.sdpa import sdpa_kernel
from tests.model.paged.kernels.pages import make_metadata, random_query_and_pages, to_float32

if torch.cuda.is_available():
    pytest.skip("the kernel is compiled here: see test_on_gpu.py", allow_module_level=True)
pytest.importorskip("triton", reason="comes only with the CUDA build of torch")

from inference.model.paged.kernels import triton as ours
from inference.model.paged.kernels import triton_store

MIXED = [(1, 1), (1, 40), (19, 19), (5, 70), (1, 16)]
HALF, FULL = torch.float16, torch.float32
ALLOWED = {HALF: 6e-3, FULL: 2e-5}
CASES: dict[str, dict[str, Any]] = {
    "alone": {"rows": [(1, 90)], "parts": 8},
    "mixed": {},
    "half precision": {"dtype": HALF},
    "in five of eight parts": {"rows": [(1, 90), (1, 40), (1, 3)], "parts": 8, "group": 3},
    "a window": {"window": 7},
    "a window in parts": {"window": 37, "parts": 2},
    "softcap and sinks": {"softcap": 2.0, "sinks": True, "parts": 4},
    "odd widths": {"group": 7, "D": 80, "E": 40},
    "one head of keys for many": {"G": 1, "group": 20, "D": 20, "E": 20},
    "large pages": {"size": 256},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # lanes that hold no query divide 0 by 0
def test_the_triton_kernel_computes_what_the_plain_kernel_does(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "MIN_SPLIT_TOKENS", 8)  # so that short rows are divided too
    defaults = {"rows": MIXED, "size": 16, "G": 2, "group": 2, "D": 32, "E": 32, "dtype": FULL, "parts": 1}
    case = defaults | {"window": None, "softcap": None, "sinks": False} | case
    metadata = make_metadata(case["rows"], case["size"])
    query, pages = random_query_and_pages(
        metadata, case["G"], case["group"], case["D"], case["E"], case["dtype"]
    )
    sinks = torch.randn(query.shape[1]).to(case["dtype"]) if case["sinks"] else None
    params = AttentionParams(case["D"] ** -0.5, case["window"], case["softcap"], sinks)
    page_table = page_table_of(metadata, query.device)
    output = ours.launch(query, pages, page_table, params, tile=ours.WIDE, splits=case["parts"])
    assert not ours.arrivals(query.device).any()
    query, pages, params = to_float32(query, pages, params)
    expected = sdpa_kernel(query, pages, metadata, params)
    assert output.dtype == case["dtype"] and output.shape == expected.shape
    assert (output.float() - expected).abs().max() <= ALLOWED[case["dtype"]]


class FakeKernel:
    """Records the device that is current at each launch."""

    def __init__(self, current: list[torch.device]) -> None:
        self.current, self.launched_on = current, list[torch.device]()

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return lambda *args, **options: self.launched_on.append(self.current[-1])


def test_kernels_are_launched_on_the_device_of_their_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """With layers on several GPUs, it is not the current device, on which Triton launches."""
    current = [torch.device("cuda", 0)]

    @contextmanager
    def device_of(tensor: torch.Tensor) -> Iterator[None]:
        current.append(tensor.device)
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    metadata = make_metadata(MIXED, 16)
    query, pages = random_query_and_pages(metadata, 2, 2, 32, 32, FULL)
    kernel, store_kernel = FakeKernel(current), FakeKernel(current)
    monkeypatch.setattr(ours, "attend_pages", kernel)
    monkeypatch.setattr(triton_store, "store_token", store_kernel)
    page_table = page_table_of(metadata, query.device)
    ours.launch(query, pages, page_table, AttentionParams(1.0), tile=ours.WIDE, splits=1)
    key = query[:, :2]
    triton_store.store(key, key, pages.keys.flatten(0, 1), pages.values.flatten(0, 1), torch.arange(len(key)))
    assert kernel.launched_on == store_kernel.launched_on == [torch.device("cpu")]


def test_work_is_split_only_if_there_are_few_programs() -> None:
    assert ours.num_splits(programs=8, num_visible=8192, most_programs=264) == 32
    assert ours.num_splits(programs=8, num_visible=8192, most_programs=132) == 16
    assert ours.num_splits(programs=64, num_visible=8192, most_programs=264) == 4
    assert ours.num_splits(programs=8, num_visible=300, most_programs=264) == 1
    assert ours.num_splits(programs=512, num_visible=8192, most_programs=264) == 1
