"""The GPU report on a machine without a GPU: its sections run, its arithmetic is right."""

import gc
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from inference.model.device_copy import lists_to_device
from inference.native.build import NativeUnavailable
from scripts.bench.engine_under_test import EngineFailed
from scripts.bench.models import build_model, num_parameters
from scripts.bench.options import BenchOptions
from scripts.gpu import engine as engine_module
from scripts.gpu import run_sections as sections_process
from scripts.gpu.engine import EnginePool, EngineSize
from scripts.gpu.figure import Figure, WrongResult
from scripts.gpu.report import FigureReport
from scripts.gpu.run_sections import missing_packages, run_section
from scripts.gpu.section import MeasureSection, SectionOptions, SectionRun
from scripts.gpu.sections import (
    SECTIONS,
    Section,
    correct,
    kernels,
    memory,
    prefill,
    profile,
    quantized,
    roofline,
    sync,
    versus_vllm,
)
from scripts.gpu.targets import TARGETS, find_target, verdict
from scripts.preflight.memory.cases import MemoryCase
from scripts.preflight.memory.measure import MeasuredMemory, Prediction

BENCH = BenchOptions(model="tiny", dtype="float32", device="cpu", threads=1, runner="paged")
SIZE = EngineSize(max_sequences=4, max_batch_tokens=64)
TRIAL_SECTION = "trial"
FAKE_VLLM = """
import time
from types import SimpleNamespace

SamplingParams = SimpleNamespace

class LLM:
    def __init__(self, model, **options):
        if "compilation_config" in options:
            raise RuntimeError("no compiler")

    def generate(self, prompts, sampling, use_tqdm):
        assert all(prompt["prompt_token_ids"] for prompt in prompts) and sampling[0].ignore_eos
        time.sleep(0.01)
        return [self.answer(each.max_tokens) for each in sampling]

    def answer(self, num_tokens):
        return SimpleNamespace(
            outputs=[SimpleNamespace(token_ids=[1] * num_tokens)],
            metrics=SimpleNamespace(first_token_latency=0.004),
        )
"""


@pytest.fixture
def options(tmp_path: Path) -> SectionOptions:
    return SectionOptions(BENCH, rounds=1, sample=True, output=tmp_path)


@pytest.fixture
def run(options: SectionOptions) -> SectionRun:
    return SectionRun(options, EnginePool(BENCH, SIZE), time.monotonic() + 600)


Runs = Callable[[MeasureSection, float, float], tuple[bool, list[str]]]


@pytest.fixture
def run_trial(options: SectionOptions, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Runs a section with a budget, in what remains of the run; returns whether it passed, and its lines."""

    def run_trial(
        measure: MeasureSection, minutes: float, remaining_minutes: float
    ) -> tuple[bool, list[str]]:
        monkeypatch.setitem(SECTIONS, TRIAL_SECTION, Section(measure, minutes))
        report = FigureReport(options.output, "tiny")
        passed = run_section(
            TRIAL_SECTION, options, EnginePool(BENCH, SIZE), report, time.monotonic() + 60 * remaining_minutes
        )
        report.write_table()
        lines = (options.output / "figures.txt").read_text().splitlines()
        return passed, [line for line in lines if line.startswith(f"{TRIAL_SECTION}  ")]

    return run_trial


def test_figures_before_a_failure_are_kept(run_trial: Runs, options: SectionOptions) -> None:
    def measure(run: SectionRun) -> Iterator[Figure]:
        yield Figure("speed", 12.5, "ms")
        assert (run.options.output / "figures.txt").read_text().endswith("trial  speed: 12.5 ms\n")
        raise ValueError("the device is lost")

    passed, lines = run_trial(measure, 1, 9)
    assert not passed
    assert lines == ["trial  speed: 12.5 ms", "trial  failed: ValueError  (the device is lost)"]
    assert "| trial | speed | 12.5 ms | — | — |" in (options.output / "table.md").read_text()


def test_a_section_ends_with_its_budget(run_trial: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    is_closed = []

    def measure(run: SectionRun) -> Iterator[Figure]:
        try:
            yield Figure("first", 1)
            assert 0 < run.remaining_s <= 4 * 60, "of the section's minutes, not of the run's"
            monkeypatch.setattr(SectionRun, "remaining_s", 0.0)
            yield Figure("second", 2)
            yield Figure("third", 3)
        finally:
            is_closed.append(True)

    passed, lines = run_trial(measure, 4, 9)
    assert passed and is_closed
    assert [line.partition(":")[0] for line in lines] == [
        "trial  first",
        "trial  second",
        "trial  time is over",
    ]


def test_a_section_that_does_not_fit_is_not_run(run_trial: Runs) -> None:
    passed, lines = run_trial(lambda run: pytest.fail("was run"), 4, 1.5)
    assert passed and lines == ["trial  not run: 1.5 of 4 min left"]


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> None:
        if name in ("wsproto", "uvloop"):
            raise PackageNotFoundError

    monkeypatch.setattr(sections_process, "distribution", find)
    assert {*missing_packages()} == {"wsproto", "uvloop"}


@pytest.mark.parametrize(
    ("section", "figure", "model", "expected"),
    [
        ("roofline", Figure("share of roofline", 81.0, "%"), "8b", "met"),
        ("roofline", Figure("share of roofline", 61.0, "%"), "8b", "missed"),
        ("roofline", Figure("share of roofline", 61.0, "%"), "1b", "met"),
        ("roofline", Figure("share of roofline", 99.0, "%"), "tiny", "—"),
        ("start", Figure("until ready", 21.0, "s"), "8b", "missed"),
        ("memory", Figure("gpt2, 8 × 1000, ready", -3.5, "% error"), "8b", "missed"),
        ("memory", Figure("gpt2, 8 × 1000, ready", -2.5, "% error"), "8b", "met"),
        ("rows256", Figure("256 requests, first token", 9.0, "ms"), "8b", "—"),
    ],
)
def test_a_figure_is_compared_with_its_target(
    section: str, figure: Figure, model: str, expected: str
) -> None:
    assert verdict(find_target(section, figure.name, model), figure) == expected


def test_every_target_belongs_to_a_section() -> None:
    assert {target.section for target in TARGETS} <= SECTIONS.keys()


def kernel(start: int, end: int) -> SimpleNamespace:
    return SimpleNamespace(time_range=SimpleNamespace(start=start, end=end))


def test_concurrent_kernels_count_once() -> None:
    assert profile.busy_us([kernel(10, 30), kernel(0, 5), kernel(20, 25), kernel(28, 40)]) == 35


def test_a_token_reads_every_weight_except_embeddings_of_other_tokens() -> None:
    model = build_model("tiny", "float32", "cpu")
    assert roofline.weight_bytes_read(model) == 4 * (num_parameters("tiny") - 512 * 32)
    tied = build_model("77m", "bfloat16", "meta")
    assert roofline.weight_bytes_read(tied) == 2 * num_parameters("77m")


def test_a_prompts_arithmetic_is_that_of_its_weights_and_of_causal_attention() -> None:
    model = build_model("tiny", "float32", "cpu")
    layers = num_parameters("tiny") - 2 * 512 * 32
    attention = 2 * (2 * 2 * 32 * 100 * 100 / 2)  # layers × (matmuls × 2 × width × pairs of tokens)
    assert prefill.prompt_operations(model, 100) == 2 * layers * 100 + attention + 2 * 512 * 32


@pytest.mark.parametrize(
    ("tokens", "context", "expected"),
    [(512, 8192, (1, 512)), (8192, 8192, (1, 8191)), (8192, 4096, (3, 2730)), (2048, 2049, (1, 2048))],
)
def test_a_step_is_divided_into_prompts_that_fit_the_context(
    tokens: int, context: int, expected: tuple[int, int]
) -> None:
    assert prefill.divide_step(tokens, context) == expected


def test_rows_still_decode_after_the_timed_steps(run: SectionRun) -> None:
    engine, steps = run.engines.get(), 24
    load = engine.decode_load(4, steps)
    with engine.decoding(load) as decoding:
        assert decoding.time_steps(steps) > 0
        assert not any(sink.is_finished for sink in decoding.sinks)
    assert not engine.engine.stats().running


def test_one_engine_serves_all_sections_of_its_size(run: SectionRun) -> None:
    first = run.engines.get()
    assert run.engines.get() is first
    longer = run.engines.get(context=4096, max_sequences=2)
    assert longer is not first and longer.runner.context == 4096
    assert run.engines.get() is not first


def test_objects_are_frozen_while_there_is_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(engine_module, "freeze_gc", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: calls.append("unfreeze"))
    engines = EnginePool(BENCH, SIZE, freezes_gc=True)
    assert engines.get() is engines.get()
    engines.free()
    assert calls == ["unfreeze", "freeze", "unfreeze"]


def test_a_wait_for_the_device_is_counted_at_the_line_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    make_tensor = torch.tensor

    def wait(*args: Any, **options: Any) -> torch.Tensor:
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        warnings.warn("something else", stacklevel=1)
        return make_tensor(*args, **options)

    monkeypatch.setattr(torch, "tensor", wait)
    with sync.counting_synchronizations("cpu") as places:
        for _ in range(3):
            list(lists_to_device([[1], [2]], torch.device("cpu")))
    ((place, count),) = places.items()
    assert count == 3 and place.startswith("inference/model/device_copy.py:")


def test_a_variant_overrides_the_arguments_and_splits_of_the_kernel() -> None:
    launches = []

    class FakeKernel:
        def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
            return lambda *args, **options: launches.append((grid, args, options))

    module = SimpleNamespace(attend_pages=FakeKernel(), num_splits=lambda *args: 8)
    before = vars(module).copy()
    variant = kernels.OverriddenKernel(module.attend_pages, kernels.KernelVariant(5, 128, 8).arguments)
    with kernels.replacing(module, variant, splits=2):
        module.attend_pages[4, module.num_splits(1, 2, 3)]("query", BLOCK_N=64, BLOCK_M=16, num_warps=4)
    arguments = {"BLOCK_N": 128, "BLOCK_M": 16, "num_warps": 8, "num_stages": 5}
    assert launches == [((4, 2), ("query",), arguments)]
    assert vars(module) == before
    assert kernels.AS_IT_IS.arguments == {}


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("[gw3] [ 17%] PASSED tests/test_families.py::test_a[llama] ", "passed"),
        ("tests/test_families.py::test_a[llama] FAILED        [ 50%]", "failed"),
        ("tests/test_families.py::test_a[PASSED] SKIPPED (no GPU) [ 50%]", "skipped"),
        ("tests/test_families.py::test_a[llama] ", ""),
        ("FAILED tests/test_families.py::test_a[llama] - AssertionError", ""),
    ],
)
def test_the_outcome_of_a_test_is_read_from_pytests_line(line: str, outcome: str) -> None:
    assert correct.outcome_of(line) == outcome


def test_the_files_of_the_suite_exist() -> None:
    assert all((correct.ROOT / path).exists() for group in correct.GROUPS for path in group.arguments)


@pytest.fixture
def vllm_path(tmp_path: Path) -> Path:
    """A folder with a vLLM that answers at once and cannot compile."""
    path = tmp_path / "peer" / "vllm.py"
    path.parent.mkdir()
    path.write_text(FAKE_VLLM)
    return path.parent


def test_vllm_is_compared_with_our_figures_of_the_same_run(run: SectionRun, vllm_path: Path) -> None:
    run = replace(
        run, options=replace(run.options, vllm_path=vllm_path), figures={("rows256", "2 requests"): 1.0}
    )
    figures = {figure.name: figure for figure in versus_vllm.measure_section(run)}
    assert [*figures] == [
        *("start, compiled", "start, CUDA graphs", "start, eager", "2 requests", "2 requests, first token"),
        *("2 requests, ratio", "decode, 1 row"),
    ]
    assert figures["start, compiled"].value == "failed" and figures["2 requests, first token"].value == 4
    rate, ratio = figures["2 requests"].value, figures["2 requests, ratio"].value
    assert isinstance(rate, float) and 0 < rate < 8 / 0.01 and ratio == 1 / rate
    assert "no compiler" in (run.options.output / versus_vllm.LOG).read_text()


def test_a_missing_vllm_is_an_error_that_names_the_option(run: SectionRun, tmp_path: Path) -> None:
    run = replace(run, options=replace(run.options, vllm_path=tmp_path))
    with pytest.raises(EngineFailed, match=f"vLLM is not installed in {tmp_path}: --vllm-path"):
        next(versus_vllm.measure_section(run))


@pytest.mark.slow
def test_tests_that_take_too_long_are_ended(run: SectionRun, tmp_path: Path) -> None:
    path = tmp_path / "test_endless.py"
    path.write_text("import time\ndef test_first(): pass\ndef test_endless(): time.sleep(60)\n")
    group = correct.TestGroup("endless", "not gpu", False, (str(path),))
    counts: Counter[str] = Counter()
    ends_soon = replace(run, deadline_s=time.monotonic() + correct.END_S + 2)
    with (tmp_path / "lines").open("w") as file, correct.running_tests(ends_soon, group) as process:
        correct.copy_lines(process, file, counts)
        assert process.wait() != 0
    assert "KeyboardInterrupt" in (tmp_path / "lines").read_text()


@pytest.mark.slow
def test_a_memory_prediction_is_reported_with_its_error(run: SectionRun) -> None:
    def measure(case: MemoryCase, model: Path, scratch: Path) -> MeasuredMemory:
        assert case.settings["device"] == "cpu" and (model / "model.safetensors").exists()
        return MeasuredMemory(Prediction(104, 100), Prediction(120, 100), {"weights": Prediction(50, 50)})

    figures = list(memory.measure_section(run, measure))
    assert [figure.text for figure in figures] == ["4 % error", "20 % error", "0 % error"]
    assert figures[1].remark == "100 bytes, predicted 120 bytes"


def test_a_server_that_fails_leaves_the_others_to_be_measured(
    run: SectionRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "SAMPLE", memory.SAMPLE * 2)
    monkeypatch.setattr(memory, "write_model", lambda shape, folder: folder)
    outcomes = [TimeoutError("not ready"), MeasuredMemory(Prediction(1, 1), Prediction(1, 1), {})]

    def measure(case: MemoryCase, model: Path, scratch: Path) -> MeasuredMemory:
        outcome = outcomes.pop(0)
        if isinstance(outcome, TimeoutError):
            raise outcome
        return outcome

    measured = memory.measure_section(run, measure)
    assert [figure.value for figure in islice(measured, 3)] == ["failed", 0, 0]
    with pytest.raises(WrongResult, match="llama"):
        next(measured)


def test_quantized_steps_are_timed_where_the_cpu_has_no_native_code(
    run: SectionRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: str) -> float:
        raise NativeUnavailable("no C compiler")

    monkeypatch.setattr(quantized, "error_to_cpu", refuse)
    measured = quantized.measure_section(run)
    assert next(measured) == Figure("errors", "not measured", remark="no C compiler")


def test_a_failed_test_of_a_group_is_a_wrong_result(
    run: SectionRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "test_wrong.py"
    wrong.write_text("def test_wrong(): assert 0\n")
    arguments = ("tests/remote/upstreams/gradio/test_untrusted_literal.py", str(wrong))
    monkeypatch.setattr(correct, "SAMPLE", (correct.TestGroup("sample", "not gpu", True, arguments),))
    measured = correct.measure_section(run)
    figures = {figure.name: figure.value for figure in islice(measured, 5)}
    assert f"1 failed, {figures['sample, passed']} passed" in str(figures["sample, summary"])
    assert figures["sample, passed"] and not figures["sample, error"]
    with pytest.raises(WrongResult, match="sample"):
        next(measured)


OWN_TESTS = {"memory", "correct"}  # sections that are tested above


@pytest.mark.timeout(900)  # on a machine that other programs load, too
@pytest.mark.slow
def test_every_other_section_runs_without_a_gpu(tmp_path: Path, vllm_path: Path) -> None:
    sections = [name for name in SECTIONS if name not in OWN_TESTS]
    arguments = ["--device", "cpu", "--model", "tiny", "--sample", "--runner", "paged", "--rounds", "1"]
    arguments += ["--threads", "1", "--max-sequences", "8", "--output", str(tmp_path)]
    arguments += ["--vllm-path", str(vllm_path)]
    result = subprocess.run(
        [sys.executable, "-m", "scripts.gpu", *sections, *arguments],
        cwd=correct.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout
    rows = [line.split(" | ") for line in (tmp_path / "table.md").read_text().splitlines()[2:]]
    assert {section.strip("| ") for section, *_ in rows} == set(sections)
    assert not {figure for _, figure, *_ in rows} & {"failed", "not run", "time is over"}
    assert "paged" in (tmp_path / "log.txt").read_text()
    assert (tmp_path / "profile.txt").stat().st_size
