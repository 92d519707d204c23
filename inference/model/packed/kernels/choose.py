"""Which kernel reads a model's pages: the fastest of those that are there and compute what plain does.

What cannot be had, fails or is wrong is done without, and the log says so. Knows the table of kernels.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from inference.errors import named
from inference.model.packed.attention import Kernel
from inference.model.packed.kernels import proof, timing
from inference.model.packed.kernels.asked import Asked, asked_of
from inference.model.packed.kernels.table import KERNELS, Row, imported
from inference.model.packed.plain import plain
from inference.model.packed.runner import SIZE

log = logging.getLogger(__name__)

LEAST = 1.05  # × the speed of plain: less is not worth another way to compute
# By how much faster a kernel of larger pages must be: prompts share whole pages, and the last of each row's
# is half empty.
LARGER = 1.1

Times = Callable[[Kernel, Counter[Asked], int, bool], list[float]]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A kernel, and what a runner must know of it: tokens of its pages, and whether it can be recorded."""

    name: str
    kernel: Kernel
    size: int
    captures: bool


PLAIN = Chosen("plain", plain, SIZE, False)


@torch.inference_mode()
def choose_kernel(
    model: PreTrainedModel,
    rows: Sequence[Row] = KERNELS,
    find: Callable[[str], Kernel] = imported,
    times: Times = timing.times,
) -> Chosen:
    """The kernel for a model whose weights are where they will stay.

    Takes seconds where kernels are compiled, nothing on devices that none is for. Raises Unfit where it finds
    that the model cannot be driven in pages.
    """
    if not any(row.device == model.device.type for row in rows):
        return PLAIN
    asked, name = asked_of(model), model.config.model_type
    devices = {each.device.type for each in asked}
    rows = [row for row in rows if devices == {row.device}]
    plain_times = times(plain, asked, SIZE, False) if rows else []
    best, most = PLAIN, LEAST
    for row in rows:
        try:
            found = Chosen(row.name, find(row.name), row.size, row.captures)
            error = proved(found, asked)
            gain = timing.ratio(times(found.kernel, asked, row.size, row.captures), plain_times)
        except Exception as raised:  # code of any maker, on any device: whatever it raises, we do without
            log.info("%s: attention not by %s: %s", name, row.name, named(raised))
            continue
        log.info("%s: attention by %s: %.1f × plain, error %.0e", name, row.name, gain, error)
        gain = gain / LARGER if row.size > SIZE else gain
        if gain > most:
            best, most = found, gain
    log.info("%s: attention: %s, pages of %d tokens", name, best.name, best.size)
    return best


def proved(candidate: Chosen, asked: Counter[Asked]) -> float:
    """Its largest error. Raises ArithmeticError where that is too large, and whatever the kernel does."""
    errors = []
    for each in asked:
        error = proof.error(candidate.kernel, each, candidate.size)
        if not error <= proof.allowed(each):
            raise ArithmeticError(f"error {error:.0e}, of which {proof.allowed(each):.0e} are allowed")
        errors.append(error)
    return max(errors)
