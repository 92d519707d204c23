"""The comparison with other engines: loads have the stated lengths, and failures are reported."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.bench import bandwidth, server, table
from scripts.bench.engine_under_test import EngineFailed, EngineSpec, EngineUnderTest
from scripts.bench.engines import ENGINES, llama_cpp
from scripts.bench.engines.converted_files import convert_once
from scripts.bench.engines.subprocess_engine import SubprocessEngine
from scripts.bench.load import Load, Request, Run
from scripts.bench.models import byte_tokenizer, bytes_per_token, num_parameters
from scripts.bench.options import QUANTIZE, BenchOptions
from scripts.bench.process_tree import ProcessTree
from scripts.bench.rounds import measure
from scripts.bench.workload import BenchWorkload, Results
from scripts.bench.workloads import engines as engines_workload

OPTIONS = BenchOptions("tiny", "float32", "cpu", threads=1)
DRIVER = """
import json, sys
print(json.dumps({"description": "echo"}), flush=True)
for line in sys.stdin:
    load = json.loads(line)
    answer = {"token_times": [[1.0] for _ in load], "seconds": 1.0, "tokens": len(load[0][0])}
    print(json.dumps(answer), flush=True)
    if len(load) > 1:
        sys.exit(3)
"""


class ConstantEngine:
    description = "made up"

    def __init__(self, fails: int = 10**9) -> None:
        self.fails, self.runs = fails, 0

    def run(self, load: Load) -> Run:
        self.runs += len(load) > 1
        if self.runs >= self.fails:
            raise EngineFailed("Traceback\n  it broke")
        return Run(2.0, [[1.0, 2.0] for _ in load], 10, cpu_s=1.0, peak_mb=5)

    def stop(self) -> None:
        pass


def run_measurement(*engines: EngineUnderTest, rounds: int = 2) -> Results:
    named = [EngineSpec(f"p{number}", lambda engine=engine: engine) for number, engine in enumerate(engines)]
    loads = {"one": [Request((1, 2), 10)], "two": [Request((1, 2), 10)] * 2}
    workload = BenchWorkload(
        "made",
        "",
        "tiny",
        lambda *_: loads,
        lambda _: named,
        {"one": lambda _: 7.0},
        lambda _: (14.0, "measured"),
    )
    return measure(workload, OPTIONS, rounds, settle_s=0)


def test_the_mixed_load_has_the_lengths_that_it_states() -> None:
    load = engines_workload.make_loads(OPTIONS, 1)["mixed"]
    assert [(len(request.ids), request.num_tokens) for request in load] == list(
        engines_workload.MIXED_LENGTHS
    )
    assert (len(load), engines_workload.TOTAL_PROMPT_TOKENS, engines_workload.TOTAL_ANSWER_TOKENS) == (
        16,
        5331,
        2185,
    )
    assert (
        f"{engines_workload.TOTAL_PROMPT_TOKENS} prompt tokens"
        in engines_workload.ENGINES_WORKLOAD.description
    )


def test_only_the_requested_loads_are_computed_and_prompts_are_new_in_each_round() -> None:
    only = replace(OPTIONS, only=("decode", "prefill"))
    first, second = engines_workload.make_loads(only, 1), engines_workload.make_loads(only, 2)
    assert [*first] == ["decode", "prefill"] and first["decode"] != second["decode"]


def test_rates_measure_what_a_load_is_made_to_show() -> None:
    run = Run(4.0, [[1.0, 2.0, 4.0]], 7, cpu_s=1.0)
    assert engines_workload.decode_rate(run) == pytest.approx(2) and engines_workload.prefill_rate(
        run
    ) == pytest.approx(1024)


def test_an_engine_that_fails_at_a_load_is_reported_and_runs_the_others() -> None:
    results = run_measurement(ConstantEngine(), ConstantEngine(fails=3))
    assert results.failures == {("two", "p1"): "it broke"}
    assert [len(results.runs[load, "p1"]) for load in ("one", "two")] == [2, 1]
    lines = list(table.format_results(results))
    assert "p1, two: it broke" in lines and results.ratios("two", "p1", results.rate("two")) == [1]


def test_an_engine_that_cannot_be_prepared_does_not_start() -> None:
    def prepare() -> None:
        raise EngineFailed("no such model")

    make_specs = [EngineSpec("ours", ConstantEngine), EngineSpec("other", ConstantEngine, prepare)]
    workload = BenchWorkload("made", "", "tiny", lambda *_: {"one": [Request((1,), 2)]}, lambda _: make_specs)
    results = measure(workload, OPTIONS, rounds=1, settle_s=0)
    assert [*results.descriptions] == ["ours"] and results.failures == {("start", "other"): "no such model"}


def test_the_end_of_our_own_server_ends_the_measurement() -> None:
    with pytest.raises(EngineFailed):
        run_measurement(ConstantEngine(fails=1), ConstantEngine())


def test_the_share_of_the_limit_is_reported_for_loads_of_one_answer() -> None:
    lines = list(table.format_results(run_measurement(ConstantEngine())))
    assert "limit of one answer: 14.0 tokens/s, measured" in lines
    assert "one, p0: 50 % of the limit (50 to 50)" in lines and not any("two, p0:" in line for line in lines)
    assert next(line for line in lines if line.startswith("start  p0")).split()[-1] == "5"


def test_only_installed_engines_that_support_the_precision_take_part(tmp_path: Path) -> None:
    options = replace(OPTIONS, engines_folder=str(tmp_path), quantize="int8")
    assert [spec.name for spec in engines_workload.make_specs(options)] == ["hearth"]
    assert [spec.name for spec in engines_workload.make_specs(replace(options, quantize="none"))] == [
        *("hearth", "generate", "continuous")
    ]
    assert all(set(peer.weight_formats) <= set(QUANTIZE) for peer in ENGINES.values())


def test_both_engines_load_the_same_gguf_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = replace(OPTIONS, engines_folder=str(tmp_path), quantize="q4_k_m", against=("llama.cpp",))
    file = convert_once(options, "Q4_K_M.gguf", lambda path: ("touch", path))
    tmp_path.joinpath("llama.cpp/build/bin").mkdir(parents=True)
    tmp_path.joinpath("llama.cpp/build/bin/llama-server").touch()
    commands: list[list[str]] = []
    monkeypatch.setattr(llama_cpp, "ServerEngine", lambda command, *_: commands.append(command))
    monkeypatch.setattr(server, "ServerEngine", lambda command, *_, **__: commands.append(command))
    for spec in engines_workload.make_specs(options):
        spec.start()
    assert [command[command.index("--model") + 1] for command in commands] == [str(file)] * 2
    assert "main.py" in commands[0] and "--quantize" not in commands[0]


@pytest.mark.system("posix")
def test_converted_files_are_made_once_and_no_partial_file_stays(tmp_path: Path) -> None:
    options = replace(OPTIONS, engines_folder=str(tmp_path))
    first = convert_once(options, "file", lambda path: ("sh", "-c", f"echo 1 > {path}"))
    assert first.read_text() == "1\n" and convert_once(options, "file", lambda path: ("false",)) == first
    with pytest.raises(EngineFailed, match="conversion failed"):
        convert_once(options, "other", lambda path: ("sh", "-c", f"echo 1 > {path}; exit 1"))
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["tiny-file"]


def test_a_driver_gets_loads_and_its_end_is_a_failure() -> None:
    engine = SubprocessEngine([sys.executable, "-c", DRIVER])
    run = engine.run([Request((1, 2, 3), 1)])
    assert (engine.description, run.num_tokens, run.token_times) == ("echo", 3, [[1.0]]) and run.peak_mb > 1
    engine.run([Request((1,), 1)] * 2)
    with pytest.raises(EngineFailed, match="code 3"):
        engine.run([Request((1,), 1)])
    engine.stop()


def test_a_driver_that_hangs_is_ended_and_its_stderr_kept(tmp_path: Path) -> None:
    hangs = "import os, sys, time; print(os.environ['WORD'], file=sys.stderr, flush=True); time.sleep(60)"
    with pytest.raises(EngineFailed, match="code -9"):
        SubprocessEngine(
            [sys.executable, "-IS", "-c", hangs],
            environment={"WORD": "late"},
            log=tmp_path / "log",
            limit_s=2,
        )
    assert (tmp_path / "log").read_text() == "late\n"


def test_the_peak_of_a_process_tree_includes_all_its_processes() -> None:
    worked = "sum(range(10_000_000))"  # longer than the kernel's unit of time
    grown = f"import sys; held = bytearray(30_000_000); {worked}; print(flush=True); sys.stdin.read()"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grown!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as ran:
        assert ran.stdout and ran.stdin
        ran.stdout.readline()
        tree = ProcessTree(ran.pid)
        assert tree.peak_mb() > 30 and tree.cpu_s() > 0
        ran.stdin.close()
    assert tree.peak_mb() == 0


def test_memory_bandwidth_is_measured_with_a_compiler_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "BYTES", 1 << 24)
    assert bandwidth.measure(1) > 1e8 and bandwidth.measure_with_torch(1) > 1e8


def test_the_bytes_of_a_token_are_those_of_the_weights_as_stored() -> None:
    assert bytes_per_token("77m", "none") == 2 * num_parameters("77m")
    assert bytes_per_token("tiny", "none") == 2 * (num_parameters("tiny") - 512 * 32)
    assert (
        bytes_per_token("77m", "int4")
        < 0.75 * bytes_per_token("77m", "int8")
        < 0.45 * bytes_per_token("77m", "none")
    )


def test_the_tokenizer_has_as_many_tokens_as_the_shapes_vocabulary() -> None:
    tokenizer = byte_tokenizer(1000)
    assert len(tokenizer) == 1000 and tokenizer.convert_tokens_to_ids("<|endoftext|>") == 996
