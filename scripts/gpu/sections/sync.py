"""Lists where a step waits for the device: torch's warnings of synchronizing calls, by place and a step.

torch warns of most synchronizing calls, not of all: waiting for an event is not reported. One copy of the
sampled tokens a step is expected. On a CPU nothing is reported.
"""

import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from scripts.bench.load import Request
from scripts.gpu.engine import SteppedEngine
from scripts.gpu.figure import Figure
from scripts.gpu.section import SectionRun

ROOT = Path(__file__).resolve().parents[3]
ROWS, STEPS = 16, 16
CHUNK, NUM_CHUNKS = 512, 6  # tokens of a step, and steps of the prompt that is computed with the rows
MESSAGE = "synchronizing CUDA operation"
SAMPLED = Request((), 1, temperature=1.0, top_p=0.9)


def measure_section(run: SectionRun) -> Iterator[Figure]:
    engine, steps = run.engines.get(), run.choose(STEPS, 2)
    rows = run.choose(ROWS, 2)
    yield from report("greedy", steps, count_in_decoding(engine, rows, steps, None))
    yield from report("top_p", steps, count_in_decoding(engine, rows, steps, SAMPLED))
    chunk, num_chunks = run.choose((CHUNK, NUM_CHUNKS), (16, 2))
    yield from report("with a prompt", num_chunks, count_with_prompt(engine, rows, chunk, num_chunks))


def report(name: str, steps: int, places: Counter[str]) -> Iterator[Figure]:
    yield Figure(f"{name}, in all", places.total() / steps, "a step")
    for place, count in places.most_common():
        yield Figure(name, count / steps, "a step", place)


def count_in_decoding(engine: SteppedEngine, rows: int, steps: int, request: Request | None) -> Counter[str]:
    with engine.decoding(engine.decode_load(rows, steps, request)) as decoding:
        with counting_synchronizations(engine.options.device) as places:
            for _ in range(steps):
                decoding.step()
        return places


def count_with_prompt(engine: SteppedEngine, rows: int, chunk: int, num_chunks: int) -> Counter[str]:
    """In steps that compute chunks of a prompt while rows decode."""
    prompt = engine.make_load(1, chunk * num_chunks, 1)
    with (
        engine.using(max_batch_tokens=chunk),
        engine.decoding(engine.decode_load(rows, num_chunks)) as decoding,
        engine.submitting(prompt),
        counting_synchronizations(engine.options.device) as places,
    ):
        for _ in range(num_chunks):
            decoding.step()
    return places


@contextmanager
def counting_synchronizations(device: str) -> Iterator[Counter[str]]:
    """The places that synchronize within the block, and how often."""
    places: Counter[str] = Counter()

    def record(message: Warning | str, *details: Any, **options: Any) -> None:
        if MESSAGE in str(message):
            places[place_of_caller()] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = record
        before = torch.cuda.get_sync_debug_mode() if device == "cuda" else 0
        if device == "cuda":
            torch.cuda.set_sync_debug_mode("warn")
        try:
            yield places
        finally:
            if device == "cuda":
                torch.cuda.set_sync_debug_mode(before)


def place_of_caller() -> str:
    """The innermost line of the server on the stack, and the innermost one of a library that it calls."""
    frames = [frame for frame in traceback.extract_stack() if Path(frame.filename) != Path(__file__)]
    frames = [frame for frame in frames if not frame.filename.endswith("warnings.py")]
    ours = [frame for frame in frames if frame.filename.startswith(str(ROOT / "inference"))]
    if not ours:
        return f"{frames[-1].filename}:{frames[-1].lineno}"
    innermost, library = ours[-1], frames[-1]
    place = f"{Path(innermost.filename).relative_to(ROOT)}:{innermost.lineno} {innermost.line}"
    is_direct = library.filename == innermost.filename
    return place if is_direct else f"{place} → {Path(library.filename).name}:{library.lineno}"
