"""Which options are tried, and in which order."""

import pytest

from inference.model.paged.compiled_layers import CompiledAttention
from inference.model.paged.kv_pool import rotate_and_store
from inference.model.runner_selection import runner_options
from inference.model.runner_selection.requirements import RunnerSize
from tests.tiny_models.families import tiny


def test_compiled_layers_are_tried_first_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_options, "is_single_gpu", lambda model: True)
    monkeypatch.setattr(runner_options, "select_rotary_store", lambda model: rotate_and_store)
    options = list(runner_options.paged_options(tiny("llama"), 1e-3, 16, "auto", ""))
    assert [option.name for option in options] == [
        "paged, compiled layers, fused rotary embedding",
        "paged, compiled layers",
        "paged",
    ]
    monkeypatch.undo()  # builds on the CPU, without graphs
    runner = options[0].build(RunnerSize(2, 64, 128))
    assert isinstance(runner.attention, CompiledAttention) and runner.kv_capacity == 128
