"""The memory of training runs: what the trainer's plans say, against what serving leaves.

Knows numbers; not how a plan is made, and not which runs there are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from inference.finding import format_each, format_size

PASS_TOKENS = (4096, 2048, 1024, 512, 256)  # of a micro-batch, the largest that fits
PLANNED_TOKENS = (PASS_TOKENS[-1], PASS_TOKENS[0])  # a plan has the bytes of these; between, they are linear


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Bytes that training a run takes.

    fixed  the frozen weights and the programs, once for all runs
    run    the trained weights, their gradients and the optimizer's two moments
    steps  a micro-batch of each of PLANNED_TOKENS
    num_processes  that need as much each
    """

    fixed: int
    run: int
    steps: tuple[int, int]
    num_processes: int = 1

    def step(self, num_tokens: int) -> int:
        """Bytes of a micro-batch, which are over at its end."""
        (few, more), (first, last) = PLANNED_TOKENS, self.steps
        return max(first, first + (last - first) * (num_tokens - few) // (more - few))


def to_plan(header: Mapping[str, Any]) -> RunPlan:
    """The plan in the trainer's reply."""
    return RunPlan(header["fixed"], header["run"], tuple(header["steps"]), header["processes"])


class RunMemory:
    """Says how much memory is left for runs.

    free_bytes: memory that each process of a trainer may take beside what the server keeps.
    """

    def __init__(self, free_bytes: Callable[[], int]) -> None:
        self._free_bytes = free_bytes

    def spare_bytes(self, plan: RunPlan, run_bytes: int, resident_bytes: int) -> int:
        """Bytes for a micro-batch beside all runs, which take run_bytes, of a trainer that has these now."""
        return self._free_bytes() + resident_bytes - plan.fixed - run_bytes

    def pass_tokens(self, plan: RunPlan, spare_bytes: int) -> int:
        """The most tokens of a micro-batch for which there is memory; 0: there is none."""
        return next((count for count in PASS_TOKENS if plan.step(count) <= spare_bytes), 0)


def describe_shortage(plan: RunPlan, spare_bytes: int, num_tokens: int) -> str:
    """Such as "needs 1.2 GB of memory (…), and 800 MB are free beside serving"."""
    step = plan.step(num_tokens)
    terms = {"weights and programs": plan.fixed, "the run": plan.run, f"a pass of {num_tokens} tokens": step}
    need = ", ".join(f"{name} {format_size(size)}" for name, size in terms.items())
    have = format_each(max(0, spare_bytes + plan.fixed + plan.run), plan.num_processes)
    total = format_each(sum(terms.values()), plan.num_processes)
    return f"needs {total} of memory ({need}); beside serving there is {have}"
