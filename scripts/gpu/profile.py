"""Where a decoding step's time goes: on the device, between its kernels, on the host.

Steps are timed first without the profiler, which slows the host down, and then looked into with it.
"""

from collections.abc import Iterator
from statistics import median
from typing import Any

from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from scripts.gpu.part import Asked, Line
from scripts.gpu.served import Served

ROWS = (1, 16)
TIMED, PROFILED = 64, 8
TOP = 15
LAUNCHES = (
    "cudaGraphLaunch",
    "cudaLaunchKernel",
    "cuLaunchKernelEx",
    "cudaMemcpyAsync",
    "cudaStreamSynchronize",
)


def lines(asked: Asked) -> Iterator[Line]:
    served = Served(asked.terms)
    for rows in ROWS:
        with served.decoding(rows, TIMED + PROFILED):
            step = median(served.step() for _ in range(TIMED))
            with profile(activities=activities(asked.terms.device)) as watched:
                for _ in range(PROFILED):
                    served.step()
        print(f"\n{rows} rows, {PROFILED} steps\n{tabled(watched, asked.terms.device)}", flush=True)
        yield f"step, {rows} rows", f"{step * 1e3:.3f} ms", f"{rows / step:.0f} tokens/s"
        if asked.terms.device == "cuda":
            yield from on_device(watched, step)


def activities(device: str) -> list[ProfilerActivity]:
    return [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")


def tabled(watched: Any, device: str) -> str:
    """The operations that took most."""
    order = "self_cuda_time_total" if device == "cuda" else "self_cpu_time_total"
    return str(watched.key_averages().table(sort_by=order, row_limit=TOP, max_name_column_width=60))


def on_device(watched: Any, step: float) -> Iterator[Line]:
    """How long the device computes in a step, and how long it waits for the host or for launches."""
    kernels = [event for event in watched.events() if event.device_type == DeviceType.CUDA]
    busy = busy_us(kernels) / 1e6 / PROFILED
    yield "kernels and copies in a step", f"{len(kernels) / PROFILED:.0f}", ""
    yield "device busy", f"{busy * 1e3:.3f} ms", f"{100 * busy / step:.1f} % of the step"
    yield "device waits", f"{(step - busy) * 1e3:.3f} ms", "between kernels and steps"
    for event in watched.key_averages():
        if event.key in LAUNCHES:
            spent = f"{event.self_cpu_time_total / PROFILED:.0f} us of the host"
            yield event.key, f"{event.count / PROFILED:.0f} a step", spent


def busy_us(kernels: list[Any]) -> float:
    """Microseconds in which at least one of them ran."""
    total, until = 0.0, float("-inf")
    for span in sorted((event.time_range for event in kernels), key=lambda span: span.start):
        total += max(0.0, span.end - max(span.start, until))
        until = max(until, span.end)
    return total
