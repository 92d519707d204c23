"""The fastest of the kernels that are right, and what the log says of the others."""

import logging
from collections import Counter
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from inference.model.packed.attention import Kernel
from inference.model.packed.kernels import timing
from inference.model.packed.kernels.asked import Asked, asked_of
from inference.model.packed.kernels.choose import PLAIN, Chosen, choose_kernel
from inference.model.packed.kernels.table import KERNELS, Row, imported
from inference.model.packed.line import Line
from inference.model.packed.plain import plain
from inference.model.packed.pool import Pages


def right(query: torch.Tensor, pages: Pages, line: Line, **options: Any) -> torch.Tensor:
    return plain(query, pages, line, **options)


def faster(query: torch.Tensor, pages: Pages, line: Line, **options: Any) -> torch.Tensor:
    return plain(query, pages, line, **options)


def wrong(query: torch.Tensor, pages: Pages, line: Line, **options: Any) -> torch.Tensor:
    return plain(query, pages, line, **options) + 0.1


def broken(query: torch.Tensor, pages: Pages, line: Line, **options: Any) -> torch.Tensor:
    raise RuntimeError("no kernel image is available")


SPEEDS = {plain: 1.0, right: 2.0, faster: 3.0, wrong: 9.0, broken: 9.0}


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    torch.manual_seed(0)
    settings = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
    return LlamaForCausalLM(LlamaConfig(**settings, num_attention_heads=4, num_key_value_heads=2)).eval()


def choose(model: PreTrainedModel, *rows: Row) -> Chosen:
    def find(name: str) -> Kernel:
        if name not in globals():
            raise ImportError(f"no module named {name}")
        kernel: Kernel = globals()[name]
        return kernel

    def times(kernel: Any, asked: Counter[Asked], size: int, captures: bool) -> list[float]:
        return [1 / SPEEDS[kernel], 2 / SPEEDS[kernel]]

    return choose_kernel(model, rows, find, times)


def test_a_model_tells_what_it_asks_of_attention(model: PreTrainedModel) -> None:
    cpu, full = torch.device("cpu"), torch.float32
    assert asked_of(model) == {Asked(cpu, full, 4, 2, 8, 8, 8**-0.5, None, None, None): 2}


def test_the_fastest_right_kernel_is_taken(model: PreTrainedModel, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rows = [Row(name, "cpu", 16, False) for name in ("absent", "right", "wrong", "faster", "broken")]
    assert choose(model, *rows).kernel is faster
    told = [message.removeprefix("llama: attention") for message in caplog.messages]
    assert told[0] == " not by absent: ImportError: no module named absent"
    assert told[1].startswith(" by right: 2.0 × plain, error ")
    assert told[2] == " not by wrong: ArithmeticError: error 1e-01, of which 1e-04 are allowed"
    assert told[3].startswith(" by faster: 3.0 × plain, error ")
    assert told[4] == " not by broken: RuntimeError: no kernel image is available"
    assert told[5:] == [": faster, pages of 16 tokens"]


def test_a_kernel_brings_the_size_of_its_pages(model: PreTrainedModel) -> None:
    chosen = choose(model, Row("right", "cpu", 256, True))
    assert (chosen.size, chosen.captures) == (256, True)


def test_larger_pages_must_be_worth_it(model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SPEEDS, faster, 2.1)
    rows = Row("right", "cpu", 16, True), Row("faster", "cpu", 256, True)
    assert choose(model, *rows).kernel is right
    monkeypatch.setitem(SPEEDS, faster, 2.3)
    assert choose(model, *rows).kernel is faster


def test_what_is_hardly_faster_is_done_without(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SPEEDS, right, 1.02)
    assert choose(model, Row("right", "cpu", 16, True)) is PLAIN


def test_on_the_cpu_there_is_the_plain_kernel_alone(model: PreTrainedModel) -> None:
    assert choose_kernel(model) is PLAIN


def test_a_kernel_is_timed_for_each_course(model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "TURNS", 1)
    monkeypatch.setattr(timing, "CALLS", 1)
    seconds = timing.times(plain, asked_of(model), 16, False)
    assert len(seconds) == len(timing.COURSES) and min(seconds) > 0
    assert timing.ratio([1.0, 2.0], [4.0, 2.0]) == pytest.approx(2.0)


def test_what_cannot_be_had_is_an_import_error() -> None:
    """Without a GPU none can; where one can, it is a function."""
    for row in KERNELS:
        try:
            assert callable(imported(row.name))
        except ImportError as error:
            assert str(error)
