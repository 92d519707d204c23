"""Argmax, Gumbel-max sampling and sampling cutoffs of logits on the CPU, computed by the C library.

Knows tensors and the library; knows no sequences and no seeds.
"""

from ctypes import byref

import torch
from torch import Tensor

from inference.native.library import available, library
from inference.native.packed_matrix import NATIVE_DTYPES, scratch
from inference.native.structs import CutoffParams, Logits

AMBIGUOUS = -3  # as in draw.h


def supports(logits: Tensor) -> bool:
    """Whether the logits (W, V) are on the CPU, in float32 or bfloat16, with contiguous rows."""
    is_native = logits.device.type == "cpu" and logits.dtype in NATIVE_DTYPES and logits.stride(1) == 1
    return is_native and available()


def argmax(logits: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
    """The largest logits (n,) float32 of the rows `where` (n,) int64, and the first token ids (n,) with them.

    The logit is NaN for a row with NaN or +infinity.
    """
    best, ids = torch.empty(len(where)), torch.empty(len(where), dtype=torch.int64)
    library().argmax(byref(logits_struct(logits, where)), best.data_ptr(), ids.data_ptr())
    return best, ids


def gumbel_argmax(
    logits: Tensor, where: Tensor, states: Tensor, temperatures: Tensor, cutoffs: Tensor | None = None
) -> Tensor:
    """The ids (n,) int64 with the largest logits / temperature + noise, for the rows `where` (n,) int64.

    states         (n,) int64, from which the keys of the noise are computed (see gumbel.rng_states)
    temperatures   (n,) float32
    cutoffs        (n,) float32: tokens with logit / temperature below it are excluded

    An id is negative (see sample.h) if no token is left, if a logit is NaN or +infinity, or if several tokens
    are too close to decide.
    """
    ids = torch.empty(len(where), dtype=torch.int64)
    least = None if cutoffs is None else cutoffs.data_ptr()
    places = states.data_ptr(), temperatures.data_ptr(), least, ids.data_ptr()
    library().gumbel_argmax(byref(logits_struct(logits, where)), *places)
    return ids


def compute_cutoffs(
    logits: Tensor, where: Tensor, temperatures: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor
) -> Tensor:
    """The least logit / temperature that top-k, then top-p, then min-p keep: (n,) float32, for rows `where`.

    top_k is (n,) int32, the others (n,) float32. top_k = 0, top_p = 1.0 and min_p = 0.0 disable a filter.
    """
    rows, cutoffs = logits_struct(logits, where), torch.empty(len(where), dtype=torch.float32)
    params = CutoffParams(*(values.data_ptr() for values in (temperatures, top_k, top_p, min_p)))
    memory = scratch(library().cutoffs_bytes(byref(rows)))
    library().cutoffs_compute(byref(rows), byref(params), cutoffs.data_ptr(), memory.data_ptr())
    return cutoffs


def logits_struct(logits: Tensor, where: Tensor) -> Logits:
    """The C struct. It points into both tensors, which must outlive it."""
    return Logits(
        rows=len(where),
        width=logits.shape[1],
        dtype=NATIVE_DTYPES[logits.dtype],
        threads=torch.get_num_threads(),
        stride=logits.stride(0),
        values=logits.data_ptr(),
        where=where.data_ptr(),
    )
