"""Times steps that decode with LoRA adapters: none loaded, loaded, one in all rows, four in turns.

Before that, the logits of a tiny model with adapters are compared with those of models that have them merged
into their weights. Steps follow each other without a wait, as overlapped ones do; no token is sampled.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median

import torch

from inference.model.lora.delta import LoraDelta
from inference.model.lora.runner import ATTRIBUTE, AdapterRunner
from inference.model.lora.weights import AdapterWeights
from scripts.bench.adapters import NUM_ADAPTERS, StepShape, make_step, random_adapter
from scripts.bench.models import build_model
from scripts.bench.options import BenchOptions
from scripts.gpu.device import synchronize
from scripts.gpu.engine import EngineSize, SteppedEngine
from scripts.gpu.figure import Figure, WrongResult
from scripts.gpu.section import SectionRun

RANK = 16
ROWS = (1, 16, 64)
CACHED, PROMPT = 200, 512  # tokens before the one that is decoded, and of the prompt
STEPS, NUM_BLOCKS = 12, 4  # of a block, whose median counts
NONE, ONE, TURNS = (0,), (1,), tuple(range(1, NUM_ADAPTERS + 1))  # adapters of the rows, in turns
TINY = EngineSize(max_sequences=4, max_batch_tokens=64, context=64)
TINY_STD = 0.3  # of the pairs' values in the tiny model: large enough to change its logits
TINY_IDS, TINY_TOKENS = (0, 1, 2, 1), 8  # the adapters of its rows, and tokens of a row
TOLERANCE = 1e-3  # standard deviations of a logit, in float32


def measure_section(run: SectionRun) -> Iterator[Figure]:
    """Raises WrongResult if an adapter's logits are not those of the merged weights."""
    error, effect = compare_with_merged(run.bench)
    yield Figure("error to merged weights", error, "sd", f"effect {effect:.2g} sd, float32")
    if not error <= TOLERANCE < effect:
        raise WrongResult(f"logits with adapters: error {error:.0e}, effect {effect:.0e}")
    engine = run.engines.get()
    with engine.using():  # steps write pages that the prefix cache would know
        bare = {rows: step_s(run, engine, engine.runner, rows, NONE) for rows in run.choose(ROWS, (1, 4))}
        with loaded_adapters(engine, RANK, TURNS) as runner:
            yield Figure("an adapter", runner.adapters[1].nbytes / 1e6, "MB", f"rank {RANK}")
            yield Figure("steps with adapters", type(runner.delta_runner).__name__)
            yield from measure_decoding(run, engine, runner, bare)
            yield from measure_prompts(run, engine, runner)


def measure_decoding(
    run: SectionRun, engine: SteppedEngine, runner: AdapterRunner, bare: Mapping[int, float]
) -> Iterator[Figure]:
    """Steps of rows that decode. bare: the seconds of such a step while no adapter is loaded, by its rows."""
    for rows, bare_s in bare.items():
        yield Figure(f"{rows} rows, none loaded", bare_s * 1e3, "ms a step")
        for name, numbers in {"loaded": NONE, "one": ONE, "four in turns": TURNS}.items():
            if len(numbers) <= rows:
                seconds = step_s(run, engine, runner, rows, numbers)
                ratio = f"{seconds / bare_s:.2f} × none loaded"
                yield Figure(f"{rows} rows, {name}", seconds * 1e3, "ms a step", ratio)


def measure_prompts(run: SectionRun, engine: SteppedEngine, runner: AdapterRunner) -> Iterator[Figure]:
    tokens = run.choose(PROMPT, 16)
    for name, numbers in {"none": NONE, "one": ONE}.items():
        seconds = time_steps(run, engine, runner, StepShape(1, tokens, 0, list(numbers)))
        yield Figure(f"prompt of {tokens}, {name}", seconds * 1e3, "ms a step")


@contextmanager
def loaded_adapters(engine: SteppedEngine, rank: int, numbers: Sequence[int]) -> Iterator[AdapterRunner]:
    """A runner with random adapters of these numbers; the engine's model is as before after the block."""
    runner = AdapterRunner(engine.model, engine.runner)
    try:
        for number in numbers:
            runner.add(adapter := random_adapter(engine.model, number, rank))
            runner.use_graphs(adapter)
        yield runner
    finally:
        for number in numbers:
            runner.remove(number)
        delattr(engine.model, ATTRIBUTE)


def step_s(
    run: SectionRun, engine: SteppedEngine, runner: AdapterRunner, rows: int, numbers: Sequence[int]
) -> float:
    """Seconds of a step that decodes a token of each row."""
    adapter_ids = [numbers[row % len(numbers)] for row in range(rows)]
    return time_steps(run, engine, runner, StepShape(rows, 1, run.choose(CACHED, 8), adapter_ids))


def time_steps(run: SectionRun, engine: SteppedEngine, runner: AdapterRunner, shape: StepShape) -> float:
    batch, device, times = make_step(runner, shape), engine.options.device, []
    if any(shape.adapter_ids):
        batch.adapter_ids.extend(shape.adapter_ids)
    steps = run.choose(STEPS, 1)
    for _ in range(NUM_BLOCKS + 1):  # the first one is the warm-up
        synchronize(device)
        start_s = time.perf_counter()
        for _ in range(steps):
            runner.forward(batch)
        synchronize(device)
        times.append((time.perf_counter() - start_s) / steps)
    return median(times[1:])


@torch.inference_mode()
def compare_with_merged(bench: BenchOptions) -> tuple[float, float]:
    """The largest error of a logit of a tiny model with adapters, and the adapters' largest effect.

    In standard deviations of the logits.
    """
    options = BenchOptions("tiny", "float32", bench.device, bench.threads, runner=bench.runner)
    engine = SteppedEngine(options, TINY)
    runner = AdapterRunner(engine.model, engine.runner)
    for number in set(TINY_IDS) - {0}:
        runner.add(adapter := random_adapter(engine.model, number, RANK, TINY_STD))
        runner.use_graphs(adapter)
    batch = make_step(runner, StepShape(len(TINY_IDS), TINY_TOKENS, 0, []))
    base = runner.forward(batch).clone()
    batch.adapter_ids.extend(TINY_IDS)
    logits = runner.forward(batch).clone()
    token_ids = torch.tensor(batch.token_ids, device=options.device).view(len(TINY_IDS), -1)
    merged = torch.stack(
        [
            merged_logits(options, runner.adapters.get(number), row_ids)
            for number, row_ids in zip(TINY_IDS, token_ids, strict=True)
        ]
    )
    largest_error, largest_effect = (logits - merged).abs().max(), (logits - base).abs().max()
    return float(largest_error / merged.std()), float(largest_effect / merged.std())


def merged_logits(
    options: BenchOptions, adapter: AdapterWeights | None, token_ids: torch.Tensor
) -> torch.Tensor:
    """The last logits (V,) of the model with the adapter's pairs added to its weights."""
    model = build_model(options.model, options.dtype, options.device)
    for name, pair in adapter.deltas.items() if adapter else ():
        assert isinstance(pair, LoraDelta)
        model.get_submodule(name).weight += (pair.a.T @ pair.b_t).T
    logits: torch.Tensor = model(input_ids=token_ids[None]).logits[0, -1]
    return logits
