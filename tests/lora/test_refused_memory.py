"""Memory that is refused anywhere in a load of an adapter: nothing of it is left, and it loads later."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest
from torch import nn

from inference.lora import load as load_module
from inference.lora.load import load_adapter
from inference.model.lora import modules, runner, verify, weights
from inference.model.lora.runner import AdapterRunner
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from inference.process.memory.memory_shortage import is_memory_shortage
from tests.lora.peft_adapters import save_adapter
from tests.tiny_models.families import needs_fused, tiny

FILES = {module.__file__ for module in (load_module, modules, runner, verify, weights)}
CLEANUP = {"remove", "__exit__"}  # they allocate nothing


class Call(NamedTuple):
    """A call of a function in Python from a line of FILES."""

    file: str
    line_number: int
    function: str


def trace_calls(on_call: Callable[[Call], None], work: Callable[[], None]) -> None:
    """Do the work, and call on_call before each call."""

    def enter(frame: FrameType, event: str, argument: Any) -> None:
        caller = frame.f_back
        if caller and caller.f_code.co_filename in FILES and caller.f_code.co_name not in CLEANUP:
            on_call(Call(caller.f_code.co_filename, caller.f_lineno, frame.f_code.co_name))

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)


@pytest.fixture
def adapters() -> AdapterRunner:
    model = tiny("llama")
    selected = select_runner(
        model,
        RunnerLimits(max_sequences=2, context=64, kv_memory_bytes=1 << 24),
        RunnerRules(kinds=("fused",)),
    )
    return AdapterRunner(model, selected.runner)


@needs_fused
def test_memory_refused_to_any_call_of_a_load_leaves_nothing(adapters: AdapterRunner, tmp_path: Path) -> None:
    model = adapters.model
    folder = save_adapter(tmp_path, "llama", 0, target_modules=["q_proj", "o_proj"])

    def load() -> None:
        for _ in load_adapter(model, str(folder), 1, 8):
            pass

    load()
    adapters.remove(1)
    calls: dict[Call, None] = {}
    trace_calls(lambda call: calls.setdefault(call), load)
    adapters.remove(1)
    for refused in [call for call in calls if call.function not in CLEANUP]:

        def refuse(call: Call, refused: Call = refused) -> None:
            if call == refused:
                raise MemoryError

        with pytest.raises(Exception) as failure:
            trace_calls(refuse, load)
        assert is_memory_shortage(failure.value), refused
        assert not adapters.adapters and not adapters.modules.forwards, refused
        assert not any("forward" in vars(module) for module in model.modules()), refused
    load()
    adapters.remove(1)


def test_memory_refused_while_modules_get_other_forwards_leaves_none() -> None:
    class Refusing(dict[nn.Module, Callable[..., Any]]):
        def items(self) -> Any:
            yield next(iter(super().items()))
            raise MemoryError

    linears = [nn.Linear(2, 2), nn.Linear(2, 2)]
    with pytest.raises(MemoryError), modules.replaced_forwards(Refusing.fromkeys(linears, abs)):
        pass
    assert not any("forward" in vars(linear) for linear in linears)
