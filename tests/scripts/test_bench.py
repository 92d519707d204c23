"""The benchmark: loads have the requested lengths, and figures and ratios are correct."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from statistics import median
from types import SimpleNamespace

import pytest
import torch

from inference.native.library import NativeUnavailable, library
from scripts.bench import table
from scripts.bench.engine_under_test import EngineFailed, EngineSpec, EngineUnderTest, SpawnedEngine
from scripts.bench.generate import Generate, pad_prompts
from scripts.bench.hearth import Hearth, pin_runner
from scripts.bench.load import Load, Request, Run, equal_length_load, varied_length_load, warmup_requests
from scripts.bench.options import BenchOptions
from scripts.bench.rounds import measure, rotate
from scripts.bench.server import TokenStream, complete_all, record_chunk, request_body
from scripts.bench.workload import BenchWorkload, Results
from scripts.bench.workloads import WORKLOADS, prefix

OPTIONS = BenchOptions("tiny", "float32", "cpu", threads=1)


class PacedEngine:
    """An EngineUnderTest with a fixed rate."""

    description = "made up"

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.stopped = False

    def run(self, load: Load) -> Run:
        num_tokens = sum(request.num_tokens for request in load)
        seconds = num_tokens / self.rate
        return Run(seconds, [[seconds / 2, seconds] for _ in load], num_tokens, cpu_s=seconds / 4)

    def stop(self) -> None:
        self.stopped = True


def make_workload(*engines: EngineUnderTest, loads: int = 1) -> BenchWorkload:
    named = [EngineSpec(f"p{number}", lambda engine=engine: engine) for number, engine in enumerate(engines)]
    requests_by_load = {f"load {number}": [Request((1, 2), 10)] for number in range(loads)}
    return BenchWorkload(
        "made", "made up", "tiny", lambda options, number: requests_by_load, lambda options: named
    )


def test_a_runs_figures_follow_from_its_timestamps() -> None:
    run = Run(2.0, [[0.1, 0.2, 0.4], [0.3, 0.5, 1.5]], num_tokens=8, cpu_s=4.0)
    assert run.tokens_per_second == 4 and run.tokens_per_cpu_second == 2
    assert run.first_token_ms(0) == pytest.approx(100) and run.first_token_ms(0.99) == pytest.approx(300)
    assert run.inter_token_ms(0.5) == pytest.approx(200) and run.inter_token_ms(0.99) == pytest.approx(1000)
    assert Run(1.0, [[0.5]], num_tokens=1, cpu_s=1.0).inter_token_ms(0.5) == 0


def test_a_load_is_repeatable_and_differs_between_rounds() -> None:
    first, again, other = (
        varied_length_load(Random(seed), 500, 9, prompt_tokens=30, answer_tokens=20, spread=0.7)
        for seed in (1, 1, 2)
    )
    assert first == again != other
    assert all(16 <= id < 500 for request in first for id in request.ids)


def test_varied_lengths_are_centred_and_bounded() -> None:
    load = varied_length_load(Random(5), 500, 400, prompt_tokens=40, answer_tokens=20, spread=0.7)
    lengths = [len(request.ids) for request in load]
    assert 34 <= median(lengths) <= 46 and len(set(lengths)) > 50
    assert min(lengths) >= 1 and max(lengths) <= 160 and max(request.num_tokens for request in load) <= 80


def test_a_warm_up_is_short() -> None:
    (request,) = warmup_requests(
        {"one": equal_length_load(Random(1), 500, 64, prompt_tokens=32, answer_tokens=32)}
    )
    assert len(request.ids) == 32 and request.num_tokens == 4


def test_the_prefix_is_shared_within_a_round_and_new_in_the_next() -> None:
    together, later = prefix.make_loads(OPTIONS, 1).values()
    shared = {request.ids[: prefix.SHARED_TOKENS] for request in [*together, *later]}
    own = {request.ids[prefix.SHARED_TOKENS :] for request in [*together, *later]}
    assert len(shared) == 1 and len(own) == prefix.NUM_REQUESTS + 1
    assert prefix.make_loads(OPTIONS, 2)["1 later"][0].ids[: prefix.SHARED_TOKENS] not in shared


def test_every_workload_makes_loads_that_its_model_can_take() -> None:
    for workload in WORKLOADS.values():
        loads = workload.make_loads(OPTIONS, 1)
        assert loads
        for load in loads.values():
            assert load and all(0 <= id < OPTIONS.vocab_size for request in load for id in request.ids)
            assert all(len(request.ids) + request.num_tokens <= 2048 for request in load)


def test_ratios_compare_the_first_engine_with_each_other_and_all_are_stopped() -> None:
    engines = PacedEngine(30), PacedEngine(10), PacedEngine(15)
    results = measure(make_workload(*engines, loads=2), OPTIONS, rounds=2, settle_s=0)
    rate = results.rate("load 0")
    assert results.loads == ["load 0", "load 1"]
    assert results.ratios("load 1", "p1", rate) == pytest.approx([3, 3])
    assert results.ratios("load 0", "p2", rate) == pytest.approx([2, 2])
    assert all(engine.stopped for engine in engines)


def test_a_workload_that_restarts_its_engines_compares_every_start() -> None:
    engines = PacedEngine(30), PacedEngine(10)
    workload = replace(make_workload(*engines), restarts=True)
    results = measure(workload, OPTIONS, rounds=3, settle_s=0)
    assert {name: len(startups) for name, startups in results.startups.items()} == {"p0": 3, "p1": 3}
    assert any(line.startswith("start: p0 ÷ p1: ") for line in table.format_ratios(results))
    assert len(measure(make_workload(*engines), OPTIONS, rounds=3, settle_s=0).startups["p0"]) == 1


def test_no_engine_always_goes_first() -> None:
    names = ["a", "b", "c"]
    assert {rotate(names, number)[0] for number in range(3)} == set(names)
    assert all(sorted(rotate(names, number)) == names for number in range(3))


def test_the_table_has_aligned_medians_and_names_what_was_measured() -> None:
    results = Results(make_workload(), OPTIONS, descriptions={"ours": "contiguous", "theirs": ""})
    for name, rates in (("ours", (30, 10, 20)), ("theirs", (5, 5, 5))):
        results.runs["l", name] = [PacedEngine(rate).run([Request((1,), 10)]) for rate in rates]
    lines = list(table.format_results(results))
    assert lines[1] == "tiny, float32, cpu, 1 thread, medians of 3 rounds"
    header, ours = (next(line for line in lines if line.startswith(start)) for start in ("load", "l  "))
    assert [*ours.split()][:5] == ["l", "ours", "20.0", "10.0", "30.0"]
    assert ours.index("20.0") + 4 == header.index("tokens/s") + len("tokens/s")
    assert "l: ours ÷ theirs: 4.00 × tokens/s (2.00 to 6.00), 4.00 × per CPU second (2.00 to 6.00)" in lines


def test_static_batches_are_padded_on_the_left() -> None:
    ids, mask = pad_prompts([Request((5, 6, 7), 1), Request((8,), 1)], "cpu")
    assert ids.tolist() == [[5, 6, 7], [0, 0, 8]] and mask.tolist() == [[1, 1, 1], [0, 0, 1]]


def test_a_streams_chunks_are_timed_if_they_have_text() -> None:
    stream = TokenStream([])
    for at, chunk in enumerate(
        ({"choices": [{"text": "a"}]}, {"choices": [{"text": ""}]}, {"usage": {"completion_tokens": 7}})
    ):
        record_chunk(stream, chunk, float(at))
    assert stream == TokenStream([0.0], 7)
    assert request_body(Request((3, 4), 7))["prompt"] == [3, 4]


def make_loads(options: BenchOptions, number: int) -> dict[str, Load]:
    return {
        "three": varied_length_load(
            Random(number), options.vocab_size, 3, prompt_tokens=40, answer_tokens=6, spread=0.5
        )
    }


@pytest.mark.parametrize(
    "start",
    [Hearth, partial(Hearth, prefix_caching=False, speculate=4), partial(Generate, batch_size=2)],
    ids=("ours", "drafts", "generate"),
)
def test_an_engine_computes_every_token_of_a_load(start: Callable[[BenchOptions], EngineUnderTest]) -> None:
    workload = BenchWorkload(
        "one", "", "tiny", make_loads, lambda options: [EngineSpec("it", partial(start, options))]
    )
    options = replace(OPTIONS, threads=torch.get_num_threads(), profile=True)
    results = measure(workload, options, rounds=1, settle_s=0)
    ((run,),) = results.runs.values()
    load = make_loads(OPTIONS, 1)["three"]
    assert run.num_tokens == sum(request.num_tokens for request in load)
    assert all(
        1 <= len(token_times) <= it.num_tokens for token_times, it in zip(run.token_times, load, strict=True)
    )
    assert sum(run.seconds_by_section.values()) == pytest.approx(run.seconds if run.seconds_by_section else 0)
    assert len(table.as_json(results)["figures"]) == 1


def skip_without_library() -> None:
    try:
        library()
    except NativeUnavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("runner", ["fused", "paged", "contiguous"])
def test_a_profile_separates_the_model_from_what_is_around_it(runner: str) -> None:
    if runner == "fused":
        skip_without_library()
    engine = Hearth(replace(OPTIONS, threads=torch.get_num_threads(), profile=True, runner=runner))
    run = engine.run(make_loads(OPTIONS, 1)["three"])
    engine.stop()
    assert {
        "schedule",
        "build batch",
        "model",
        "sample",
        "update and output",
    } <= run.seconds_by_section.keys()
    assert run.seconds_by_section["model"] > 0 and run.seconds_by_section["sample"] > 0


@pytest.mark.parametrize("runner", ["paged", "contiguous"])
def test_our_engine_uses_the_runner_it_is_given(runner: str) -> None:
    options = replace(OPTIONS, threads=torch.get_num_threads(), runner=runner)
    engine = Hearth(options)
    engine.stop()
    assert engine.description == runner and pin_runner(options) == options


def test_a_spawned_engine_runs_in_another_process_and_says_why_it_fails() -> None:
    engine = SpawnedEngine(partial(SimpleNamespace, description="lists", run=len, stop=list))
    assert engine.description == "lists" and engine.run([Request((1,), 1)] * 3) == 3
    engine.stop()
    with pytest.raises(SystemExit, match="has no attribute 'description'"):
        SpawnedEngine(partial(SimpleNamespace))


def test_an_error_response_is_reported_with_its_status_and_message() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b'HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n\r\n{"error": "too long"}'
        )
        writer.close()

    async def ask() -> None:
        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            await complete_all(f"http://127.0.0.1:{port}", [Request((1,), 1)])

    with pytest.raises(EngineFailed, match=r"HTTP/1\.1 400 Bad Request: .*too long"):
        asyncio.run(ask())
