"""What was predicted beside what came: of a model that is really loaded, and of a GPU that is not there."""

import json
import time
from collections.abc import Sized
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
import torch

from checks import memory
from checks.finding import Finding
from checks.machine import Gpu, Machine
from checks.plan import Plan
from inference.engine.stats import Step
from inference.opening import Opened
from selftest.asked import Answer, task
from selftest.firstbatch import STEPS, FirstBatch, Seen
from selftest.ledger import Entry, Ledger
from selftest.told import as_json, as_table, proof_as_json, proof_as_table
from tests import tiny
from tests.selftest.ledgers import CONTEXT, MACHINE, ROWS, by_term, opened_as, planned_in

BUDGET = 100
STEP = Step(1, 0, False, 0.1, False)


@pytest.fixture(scope="module")
def machine() -> Machine:
    return MACHINE


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return planned_in(tiny.llama(tmp_path_factory.mktemp("model")))


@pytest.fixture
def opened(planned: Plan) -> Opened:
    return opened_as(planned)


def test_what_a_loaded_model_takes_is_told_exactly(planned: Plan, machine: Machine, opened: Opened) -> None:
    ledger = Ledger(planned, machine, opened)
    found = by_term(ledger.loaded())
    assert list(found) == ["disk", "KV a token", "RAM weights", "RAM programs", "RAM ready", "RAM loading"]
    for term in ("disk", "KV a token", "RAM weights"):
        assert found[term].predicted == found[term].actual > 0, term
    assert found["RAM ready"].actual > found["RAM weights"].actual + 100_000_000
    assert ledger.shown().keys() == {"later"}


def test_a_full_batch_writes_to_the_memory_that_was_counted(
    planned: Plan, machine: Machine, opened: Opened
) -> None:
    ledger = Ledger(planned, machine, opened)
    assert planned.measure is not None
    before = by_term(ledger.served())["RAM kv"]
    assert before.predicted == 0
    prompts = [tuple(range(10 + 70 * row, 70 + 70 * row)) for row in range(ROWS)]
    opened.engine.submit([task(prompt, 4) for prompt in prompts], [Answer() for _ in prompts])
    while opened.engine.step():
        pass
    after = by_term(ledger.served())["RAM kv"]
    assert after.predicted == ROWS * CONTEXT * planned.measure.token
    assert after.actual >= after.predicted  # whole pages of the system's


def test_memory_is_predicted_for_as_much_as_the_engine_takes(
    planned: Plan, machine: Machine, opened: Opened
) -> None:
    runner = opened.fitted.runner
    [terms] = memory.full(planned, machine).values()
    assert (runner.context, runner.max_rows) == (CONTEXT, ROWS)
    assert terms.kv == runner.area * opened.fitted.bytes_per_token


def test_a_gpu_is_counted_by_what_it_has_less(
    planned: Plan, machine: Machine, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = replace(planned.asked, device="cuda")
    there = replace(machine, gpus=(Gpu("a", free=24 * 10**9, total=25 * 10**9),))
    fake = {
        "device_count": lambda: 1,
        "mem_get_info": lambda gpu: (23 * 10**9, 25 * 10**9),
        "memory_reserved": lambda gpu: 6 * 10**8,
        "max_memory_allocated": lambda gpu: 5 * 10**8,
        "reset_peak_memory_stats": lambda gpu: None,
    }
    for name, answer in fake.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    ledger = Ledger(replace(planned, device="cuda", asked=asked), there, opened)
    loaded, served = by_term(ledger.loaded()), by_term(ledger.served())
    assert loaded["GPU ready"].actual == served["GPU"].actual == 10**9
    assert served["GPU step"].actual == 5 * 10**8
    assert served["GPU"].predicted == ledger.predicted["GPU"].serving
    assert ledger.shown() == {"cuda": 4 * 10**8}


def test_a_large_step_teaches_a_small_one_does_not(planned: Plan, machine: Machine, opened: Opened) -> None:
    ledger = Ledger(planned, machine, opened)
    assert ledger.factor([Entry("RAM step", 10**8, 2 * 10**8)]) == {"step": 2 * planned.overhead.step}
    assert ledger.factor([Entry("RAM step", 10**6, 2 * 10**8)]) == {}


@dataclass
class Engine:
    """An engine with two rows, of which so many are taken."""

    taken: int = 0
    watch: object = None
    loop: SimpleNamespace = field(init=False)

    def __post_init__(self) -> None:
        self.loop = SimpleNamespace(
            scheduler=SimpleNamespace(running=[], budget=BUDGET), seating=SimpleNamespace(max_rows=2)
        )

    def watch_with(self, watch: object) -> None:
        self.watch = watch

    def steps(self, first: FirstBatch, *taken: int) -> None:
        for count in taken:
            self.loop.scheduler.running[:] = range(count)
            first(STEP)


def test_the_first_batch_is_over_when_a_row_is_free_again() -> None:
    engine, steps, over = Engine(), [], []
    first = FirstBatch(engine, steps.append, over.append)  # type: ignore[arg-type]
    engine.steps(first, 1, 2, 2)
    assert not over and engine.watch is None
    engine.steps(first, 1)
    wait(over)
    assert over == [Seen(rows=True, tokens=False)] and len(steps) == 4 and engine.watch == steps.append


def test_after_many_steps_it_says_that_there_was_none_and_waits_on() -> None:
    engine, over = Engine(), []
    first = FirstBatch(engine, lambda step: None, over.append)  # type: ignore[arg-type]
    engine.steps(first, *[1] * (STEPS + 5))
    wait(over)
    assert over == [Seen(rows=False, tokens=False)] and engine.watch is None
    engine.steps(first, 2, 1)
    wait(over, 2)
    assert over[1:] == [Seen(rows=True, tokens=False)]


def test_it_sees_whether_a_step_was_as_large_as_it_may_be() -> None:
    engine, over = Engine(), []
    first = FirstBatch(engine, lambda step: None, over.append)  # type: ignore[arg-type]
    first(replace(STEP, tokens=BUDGET))
    engine.steps(first, 2, 1)
    wait(over)
    assert over == [Seen(rows=True, tokens=True)]


def wait(told: Sized, count: int = 1) -> None:
    for _ in range(1000):
        if len(told) >= count:
            return
        time.sleep(0.01)


def test_it_reads_as_a_table_and_as_json() -> None:
    entries = [
        Entry("disk", 2_000_000, 2_000_000),
        Entry("KV a token", 3840, 1920),
        Entry("RAM kv", 110, 100),
    ]
    assert as_table("memory, ready", entries).splitlines() == [
        "memory, ready   predicted      actual",
        "disk               2.0 MB      2.0 MB    equal",
        "KV a token     3840 bytes  1920 bytes  +100.0%",
        "RAM kv          110 bytes   100 bytes   +10.0%",
    ]
    told = json.loads(as_json("memory, ready", entries))
    assert told["terms"]["RAM kv"] == {"predicted": 110, "actual": 100}
    found = [Finding("batched", "as alone", "same", ok=True)]
    proof = json.loads(proof_as_json(found, entries))
    assert proof["ok"] and [item["name"] for item in proof["findings"]] == ["batched"]
    assert proof["memory"] == told["terms"]
    assert (
        proof_as_table(found, entries).splitlines()[-1]
        == "RAM kv      ok  110 bytes predicted   100 bytes +10.0%"
    )
