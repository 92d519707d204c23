"""Predicted and actual memory: of a model that is really loaded, and of a GPU that is simulated."""

import json
import time
from collections.abc import Callable, Sized
from dataclasses import replace

import pytest
import torch

from checks.machine import Gpu, Machine
from checks.memory.plan import Plan
from checks.resources import enough_memory
from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sequence import Sequence
from inference.engine_stats import StepStats
from inference.factory import LoadedEngine
from inference.finding import Finding
from selftest.full_batch import REPORT_AFTER_STEPS, FullBatchWatcher, StepListener
from selftest.memory_report import MemoryReport, MemoryTerm
from selftest.report import (
    format_memory_json,
    format_memory_table,
    format_selftest_json,
    format_selftest_table,
)
from selftest.scenarios import CollectedAnswer
from tests.engine.conftest import FakeRunner, GreedySampler, RecordingSink
from tests.engine.engine_probe import EngineProbe
from tests.engine.generation_requests import make_request
from tests.selftest.planned_engine import CONTEXT, MACHINE, ROWS, by_term, open_plan, plan_in_folder
from tests.tiny_models import tiny

BUDGET = 100
STEP = StepStats(1, 1, 0, False, 0.1, False)


@pytest.fixture(scope="module")
def machine() -> Machine:
    return MACHINE


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return plan_in_folder(tiny.llama(tmp_path_factory.mktemp("model")))


@pytest.fixture
def opened(planned: Plan) -> LoadedEngine:
    return open_plan(planned)


def test_the_memory_of_a_loaded_model_is_predicted_exactly(
    planned: Plan, machine: Machine, opened: LoadedEngine
) -> None:
    report = MemoryReport(planned, machine, opened)
    entries = by_term(report.terms_when_ready())
    assert list(entries) == ["disk", "KV a token", "RAM weights", "RAM programs", "RAM ready", "RAM loading"]
    for term in ("disk", "KV a token", "RAM weights"):
        assert entries[term].predicted == entries[term].actual > 0, term
    assert entries["RAM ready"].actual > entries["RAM weights"].actual + 100_000_000


def test_a_full_batch_writes_the_predicted_kv_memory(
    planned: Plan, machine: Machine, opened: LoadedEngine
) -> None:
    report = MemoryReport(planned, machine, opened)
    assert planned.model_size is not None
    before = by_term(report.terms_when_full())["RAM kv"]
    assert before.predicted == 0
    prompts = [tuple(range(10 + 70 * row, 70 + 70 * row)) for row in range(ROWS)]
    opened.engine.submit(
        [make_request(prompt, 4) for prompt in prompts], [CollectedAnswer() for _ in prompts]
    )
    while opened.engine.step():
        pass
    after = by_term(report.terms_when_full())["RAM kv"]
    assert after.predicted == ROWS * CONTEXT * planned.model_size.kv_cost.per_token
    assert after.actual >= after.predicted  # the system counts whole pages


def test_memory_is_predicted_for_the_engines_own_limits(
    planned: Plan, machine: Machine, opened: LoadedEngine
) -> None:
    runner = opened.selected_runner.runner
    [terms] = enough_memory.full_batch_terms(planned, machine).values()
    assert (runner.context, runner.max_sequences) == (CONTEXT, ROWS)
    assert terms.kv == runner.kv_capacity * opened.selected_runner.kv_cost.per_token


def test_gpu_memory_is_the_decrease_of_its_free_memory(
    planned: Plan, machine: Machine, opened: LoadedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = replace(planned.request, device="cuda")
    there = replace(machine, gpus=(Gpu("a", free=24 * 10**9, total=25 * 10**9),))
    fake = {
        "device_count": lambda: 1,
        "mem_get_info": lambda gpu: (23 * 10**9, 25 * 10**9),
        "memory_reserved": lambda gpu: 6 * 10**8,
        "max_memory_allocated": lambda gpu: 5 * 10**8,
        "reset_peak_memory_stats": lambda gpu: None,
    }
    for name, stub in fake.items():
        monkeypatch.setattr(torch.cuda, name, stub)
    report = MemoryReport(replace(planned, device="cuda", request=request), there, opened)
    loaded, served = by_term(report.terms_when_ready()), by_term(report.terms_when_full())
    assert loaded["GPU ready"].actual == served["GPU"].actual == 10**9
    assert served["GPU step"].actual == 5 * 10**8
    assert served["GPU"].predicted == report.predicted["GPU"].serving


class DrivenEngine:
    """An engine with two rows, whose running sequences the test sets for each step."""

    def __init__(self) -> None:
        self.engine = Engine(
            FakeRunner(max_sequences=2),
            GreedySampler(),
            EngineOptions(max_batch_tokens=BUDGET, max_queued_tokens=100),
        )
        self.probe = EngineProbe(self.engine)

    def watch(self, other: StepListener, over: Callable[[bool], None]) -> FullBatchWatcher:
        first = FullBatchWatcher(self.engine, other, over)
        self.engine.set_step_listener(first)
        return first

    def steps(self, *running_counts: int) -> None:
        running = [Sequence(id, make_request((3,), 1), RecordingSink(), [3]) for id in range(2)]
        for count in running_counts:
            self.probe.running[:] = running[:count]
            self.probe.on_step(STEP)


def test_the_first_batch_is_over_when_a_row_becomes_free() -> None:
    driven, steps, over = DrivenEngine(), [], []
    first = driven.watch(steps.append, over.append)
    driven.steps(1, 2, 2)
    assert not over and driven.probe.on_step is first
    driven.steps(1)
    wait(over)
    assert over == [True]
    assert len(steps) == 4 and driven.probe.on_step == steps.append


def test_after_many_steps_without_a_full_batch_it_reports_and_keeps_watching() -> None:
    driven, over = DrivenEngine(), []
    first = driven.watch(lambda step: None, over.append)
    driven.steps(*[1] * (REPORT_AFTER_STEPS + 5))
    wait(over)
    assert over == [False] and driven.probe.on_step is first
    driven.steps(2, 1)
    wait(over, 2)
    assert over[1:] == [True]


def wait(items: Sized, count: int = 1) -> None:
    for _ in range(1000):
        if len(items) >= count:
            return
        time.sleep(0.01)


def test_a_report_is_printed_as_a_table_and_as_json() -> None:
    entries = [
        MemoryTerm("disk", 2_000_000, 2_000_000),
        MemoryTerm("KV a token", 3840, 1920),
        MemoryTerm("RAM kv", 110, 100),
    ]
    assert format_memory_table("memory, ready", entries).splitlines() == [
        "memory, ready   predicted      actual",
        "disk               2.0 MB      2.0 MB    equal",
        "KV a token     3840 bytes  1920 bytes  +100.0%",
        "RAM kv          110 bytes   100 bytes   +10.0%",
    ]
    parsed = json.loads(format_memory_json("memory, ready", entries))
    assert parsed["report"] == parsed["told"] == "memory, ready"
    assert parsed["terms"]["RAM kv"] == {"predicted": 110, "actual": 100}
    findings = [Finding("batched", "as alone", "same", ok=True)]
    parsed_selftest = json.loads(format_selftest_json(findings, entries))
    assert parsed_selftest["ok"] and [item["name"] for item in parsed_selftest["findings"]] == ["batched"]
    assert parsed_selftest["memory"] == parsed["terms"]
    assert (
        format_selftest_table(findings, entries).splitlines()[-1]
        == "RAM kv      ok  110 bytes predicted   100 bytes +10.0%"
    )
