"""Times some of a model's weights, packed and plain: are native matmuls faster than torch's?

Knows weights and the clock; not what the matmuls are for.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from inference.model.best_times import best_times
from inference.model.quantization.find_weights import FoundWeight, WeightRole, find_weights
from inference.model.quantization.replace import Pack, rows_of
from inference.native import prefault
from inference.native.packed_matrix import NATIVE_DTYPES

log = logging.getLogger(__name__)

DECODE_ROWS, PREFILL_ROWS = (1, 16), 128  # rows of the input: as in decode steps, and as in prefill
# Packing is chosen if its speed, relative to torch's, is at least
MIN_DECODE_SPEEDUP = 1.03  # this for one of DECODE_ROWS
MIN_PREFILL_SPEEDUP = 0.9  # and this for PREFILL_ROWS
SAMPLE = 1 << 26  # bytes of weights to time: more than CPU caches hold, because a step reads them from memory
TURNS = 3  # minimum repetitions; the first one is the warm-up
MIN_S = 0.04  # minimum seconds spent on a number of rows

MatmulFn = Callable[[Tensor], Any]


@torch.inference_mode()
def packing_is_faster(model: Any, pack: Pack) -> bool:
    """Whether packing the model's weights makes it faster; False if it has no LAYER weights to time."""
    sample = sample_of(list(find_weights(model)))
    if not sample:
        return False
    weights = [rows_of(each.weight.detach(), each.is_transposed) for each in sample]
    with prefault.without_prefault():
        matrices = [pack(weight, NATIVE_DTYPES[weight.dtype], None) for weight in weights]
    plain: list[MatmulFn] = [partial(linear, weight=weight) for weight in weights]
    native: list[MatmulFn] = [matrix.linear for matrix in matrices]
    speedups = {}
    for rows in (*DECODE_ROWS, PREFILL_ROWS):
        x = torch.randn(rows, sample[0].inputs).to(weights[0].dtype)
        speedups[rows] = speed_ratio(native, plain, x)
    message = ", ".join(f"{ratio:.2f}x at {rows}" for rows, ratio in speedups.items())
    log.info("%s: speed of packed weights over torch, by rows: %s", model.config.model_type, message)
    decode_speedup, prefill_speedup = max(speedups[rows] for rows in DECODE_ROWS), speedups[PREFILL_ROWS]
    return decode_speedup >= MIN_DECODE_SPEEDUP and prefill_speedup >= MIN_PREFILL_SPEEDUP


def sample_of(weights: Sequence[FoundWeight]) -> list[FoundWeight]:
    """Up to SAMPLE bytes of LAYER weights, at least one, of the shape with the most values in the model."""
    layers = [each for each in weights if each.role is WeightRole.LAYER]
    values: dict[tuple[Any, ...], int] = {}
    for each in layers:
        values[shape_key(each)] = values.get(shape_key(each), 0) + each.weight.numel()
    if not values:
        return []
    most = max(values, key=values.__getitem__)
    sample = [each for each in layers if shape_key(each) == most]
    return sample[: max(1, SAMPLE // sample[0].weight.nbytes)]


def shape_key(weight: FoundWeight) -> tuple[Any, ...]:
    return weight.outputs, weight.inputs, weight.is_transposed, weight.weight.dtype


def speed_ratio(first: Sequence[MatmulFn], second: Sequence[MatmulFn], x: Tensor) -> float:
    """Time of `second` divided by time of `first` for input x, by the best repetition of each."""
    runs = [partial(compute_all, matmuls, x) for matmuls in (first, second)]
    first_s, second_s = best_times(runs, turns=TURNS, min_s=MIN_S)
    return second_s / first_s


def compute_all(matmuls: Sequence[MatmulFn], x: Tensor) -> None:
    for matmul in matmuls:
        matmul(x)
