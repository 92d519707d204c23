"""Divides the time of a step into device time, time between kernels, and host time.

Steps are first timed without the profiler, which slows down the host, and then profiled. Tables of all
operations go to profile.txt in the output folder.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from scripts.gpu.engine import SteppedEngine
from scripts.gpu.figure import Figure
from scripts.gpu.section import SectionRun
from scripts.gpu.sections.prefill import divide_step, time_steps

ROWS = (1, 64)
PREFILL_TOKENS = 2048
NUM_TIMED_STEPS, NUM_PROFILED_STEPS = 64, 8
TOP_KERNELS, TABLE_ROWS = 8, 40
MAX_CHARS = 70
LAUNCH_CALLS = (
    "cudaGraphLaunch",
    "cudaLaunchKernel",
    "cuLaunchKernelEx",
    "cudaMemcpyAsync",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
)


def measure_section(run: SectionRun) -> Iterator[Figure]:
    engine, device = run.engines.get(), run.bench.device
    num_timed = run.choose(NUM_TIMED_STEPS, 4)
    for rows in run.choose(ROWS, (2,)):
        step_s = engine.decode_step_s(rows, num_timed)
        with engine.decoding(engine.decode_load(rows, NUM_PROFILED_STEPS)) as decoding:
            profiled = profile_steps(decoding.step, NUM_PROFILED_STEPS, device)
        yield from report(run, f"{rows} rows", profiled, NUM_PROFILED_STEPS, step_s)
    yield from profile_prefill(run, engine, run.choose(PREFILL_TOKENS, 32))


def profile_prefill(run: SectionRun, engine: SteppedEngine, tokens: int) -> Iterator[Figure]:
    prompts, length = divide_step(tokens, engine.context)
    with engine.using(max_batch_tokens=prompts * length):
        time_steps(engine, prompts, length, 1)  # warm-up
        step_s = time_steps(engine, prompts, length, 1)
        profiled = profile_steps(lambda: time_steps(engine, prompts, length, 1), 1, run.bench.device)
    yield from report(run, f"prefill of {tokens}", profiled, 1, step_s)


def profile_steps(step: Callable[[], object], steps: int, device: str) -> Any:
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")
    with profile(activities=activities) as profiled:
        for _ in range(steps):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
    return profiled


def report(run: SectionRun, name: str, profiled: Any, steps: int, step_s: float) -> Iterator[Figure]:
    """Figures of `steps` profiled steps. step_s: the time of a step without the profiler."""
    yield Figure(f"{name}, step", step_s * 1e3, "ms")
    if run.bench.device == "cuda":
        yield from device_figures(name, profiled, steps, step_s)
    with (run.options.output / "profile.txt").open("a") as file:
        file.write(f"{name}, {steps} steps\n{operations_table(profiled, run.bench.device)}\n\n")


def device_figures(name: str, profiled: Any, steps: int, step_s: float) -> Iterator[Figure]:
    """The device's busy and idle time in a step of `step_s` seconds, and the host's time in launch calls."""
    kernels = [event for event in profiled.events() if event.device_type == DeviceType.CUDA]
    busy_s = busy_us(kernels) / 1e6 / steps
    yield Figure(f"{name}, device busy", busy_s * 1e3, "ms", f"{100 * busy_s / step_s:.1f} % of the step")
    yield Figure(f"{name}, kernels and copies", len(kernels) / steps, "a step")
    times: Counter[str] = Counter()
    for kernel in kernels:
        times[kernel.name] += kernel.time_range.end - kernel.time_range.start
    counts = Counter(kernel.name for kernel in kernels)
    for kernel_name, total_us in times.most_common(TOP_KERNELS):
        share = f"{100 * total_us / 1e6 / steps / busy_s:.1f} %, {counts[kernel_name] / steps:.0f} ×"
        yield Figure(f"{name}, kernel", total_us / steps, "us", f"{share} {kernel_name[:MAX_CHARS]}")
    for event in profiled.key_averages():
        if event.key in LAUNCH_CALLS:
            calls = f"{event.count / steps:.0f} × {event.key}"
            yield Figure(f"{name}, host", event.self_cpu_time_total / steps, "us", calls)


def busy_us(kernels: list[Any]) -> float:
    """Microseconds in which at least one kernel ran."""
    total, busy_until = 0.0, float("-inf")
    for span in sorted((event.time_range for event in kernels), key=lambda span: span.start):
        total += max(0.0, span.end - max(span.start, busy_until))
        busy_until = max(busy_until, span.end)
    return total


def operations_table(profiled: Any, device: str) -> str:
    """The operations that took most time."""
    order = "self_cuda_time_total" if device == "cuda" else "self_cpu_time_total"
    averages = profiled.key_averages()
    return str(averages.table(sort_by=order, row_limit=TABLE_ROWS, max_name_column_width=MAX_CHARS))
