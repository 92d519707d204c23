"""Divides the time of a decoding step into device time, time between kernels, and host time.

Steps are first timed without the profiler, which slows down the host, and then profiled.
"""

from collections.abc import Iterator
from statistics import median
from typing import Any

from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from scripts.gpu.engine import SteppedEngine
from scripts.gpu.section import ReportRow, SectionOptions

ROWS = (1, 16)
NUM_TIMED_STEPS, NUM_PROFILED_STEPS = 64, 8
TOP = 15
LAUNCH_CALLS = (
    "cudaGraphLaunch",
    "cudaLaunchKernel",
    "cuLaunchKernelEx",
    "cudaMemcpyAsync",
    "cudaStreamSynchronize",
)


def measure_section(options: SectionOptions) -> Iterator[ReportRow]:
    engine = SteppedEngine(options.bench)
    for rows in ROWS:
        with engine.decoding(rows, NUM_TIMED_STEPS + NUM_PROFILED_STEPS):
            step = median(engine.step() for _ in range(NUM_TIMED_STEPS))
            with profile(activities=activities(options.bench.device)) as profiled:
                for _ in range(NUM_PROFILED_STEPS):
                    engine.step()
        print(f"\n{rows} rows, {NUM_PROFILED_STEPS} steps", flush=True)
        print(top_operations(profiled, options.bench.device), flush=True)
        yield f"step, {rows} rows", f"{step * 1e3:.3f} ms", f"{rows / step:.0f} tokens/s"
        if options.bench.device == "cuda":
            yield from device_figures(profiled, step)


def activities(device: str) -> list[ProfilerActivity]:
    return [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")


def top_operations(profiled: Any, device: str) -> str:
    """The operations that took most time, as a table."""
    order = "self_cuda_time_total" if device == "cuda" else "self_cpu_time_total"
    return str(profiled.key_averages().table(sort_by=order, row_limit=TOP, max_name_column_width=60))


def device_figures(profiled: Any, step: float) -> Iterator[ReportRow]:
    """The device's busy and idle time in a step of `step` seconds, and the host's time in launch calls."""
    kernels = [event for event in profiled.events() if event.device_type == DeviceType.CUDA]
    busy = busy_us(kernels) / 1e6 / NUM_PROFILED_STEPS
    yield "kernels and copies in a step", f"{len(kernels) / NUM_PROFILED_STEPS:.0f}", ""
    yield "device busy", f"{busy * 1e3:.3f} ms", f"{100 * busy / step:.1f} % of the step"
    yield "device waits", f"{(step - busy) * 1e3:.3f} ms", "between kernels and steps"
    for event in profiled.key_averages():
        if event.key in LAUNCH_CALLS:
            host_time = f"{event.self_cpu_time_total / NUM_PROFILED_STEPS:.0f} us of the host"
            yield event.key, f"{event.count / NUM_PROFILED_STEPS:.0f} a step", host_time


def busy_us(kernels: list[Any]) -> float:
    """Microseconds in which at least one kernel ran."""
    total, busy_until = 0.0, float("-inf")
    for span in sorted((event.time_range for event in kernels), key=lambda span: span.start):
        total += max(0.0, span.end - max(span.start, busy_until))
        busy_until = max(busy_until, span.end)
    return total
