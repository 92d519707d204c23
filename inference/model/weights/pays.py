"""Whether a model's products are faster with native matrices than with torch: some of its weights, timed.

Knows weights and the clock; not what the products are for.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from inference.model.weights.found import Found, Role, find
from inference.model.weights.kinds import OWN
from inference.model.weights.swap import Pack, rows_of
from inference.native import prepared

log = logging.getLogger(__name__)

FEW, MANY = (1, 16), 128  # rows: of answers, and of a prompt
GAIN = 1.03  # native is chosen where it is faster by this with few rows,
LOSS = 0.9  # and with many not slower than this
SAMPLE = 1 << 26  # bytes of weights, more than caches hold: a model's are read from memory in each step
TURNS = 3  # at least, the first of which warms up
LONG_S = 0.04  # a number of rows is tried for so long

Way = Callable[[Tensor], Any]


@torch.inference_mode()
def pays(model: Any, pack: Pack) -> bool:
    """Whether native matrices are to hold the model's weights; True where it has too few to tell."""
    sample = sample_of(list(find(model)))
    if not sample:
        return False
    weights = [rows_of(found.weight.detach(), found.turned) for found in sample]
    with prepared.spared():
        matrices = [pack(weight, OWN[weight.dtype], None) for weight in weights]
    plain: list[Way] = [partial(linear, weight=weight) for weight in weights]
    native: list[Way] = [matrix.linear for matrix in matrices]
    gains = {}
    for rows in (*FEW, MANY):
        given = torch.randn(rows, sample[0].inputs).to(weights[0].dtype)
        gains[rows] = gain(native, plain, given)
    told = ", ".join(f"{ratio:.2f} at {rows}" for rows, ratio in gains.items())
    log.info("%s: native products × the speed of torch's, by rows: %s", model.config.model_type, told)
    return max(gains[rows] for rows in FEW) >= GAIN and gains[MANY] >= LOSS


def sample_of(found: Sequence[Found]) -> list[Found]:
    """Some weights of the shape that most of the model's layers' values are in."""
    layers = [each for each in found if each.role is Role.LAYER]
    values: dict[tuple[Any, ...], int] = {}
    for each in layers:
        values[like(each)] = values.get(like(each), 0) + each.weight.numel()
    if not values:
        return []
    most = max(values, key=values.__getitem__)
    chosen = [each for each in layers if like(each) == most]
    return chosen[: max(1, SAMPLE // chosen[0].weight.nbytes)]


def like(found: Found) -> tuple[Any, ...]:
    return found.outputs, found.inputs, found.turned, found.weight.dtype


def gain(ours: Sequence[Way], theirs: Sequence[Way], given: Tensor) -> float:
    """How many times as long they take for what is given; the best of several turns of each."""
    best = [math.inf, math.inf]
    turn, began = 0, time.perf_counter()
    while turn < TURNS or time.perf_counter() - began < LONG_S:
        for place, ways in enumerate((ours, theirs)):
            taken = seconds(ways, given)
            best[place] = min(best[place], taken) if turn else taken
        turn += 1
    return best[1] / best[0]


def seconds(ways: Sequence[Way], given: Tensor) -> float:
    began = time.perf_counter()
    for way in ways:
        way(given)
    return time.perf_counter() - began
