"""The next tokens of rows of logits, found by the C library: the largest, or what a draw chooses.

Knows tensors on the CPU and the library; nothing of sequences, nor of where noise comes from.
"""

from ctypes import byref
from functools import cache

import torch
from torch import Tensor

from inference.native.build import Unbuilt
from inference.native.library import library
from inference.native.matrix import FORMS, scratch
from inference.native.structs import Cuts, Logits

TOO_NEAR = -3  # as in draw.h


@cache
def available() -> bool:
    """Whether there is a library; it is built now, if it was not before."""
    try:
        library()
    except Unbuilt:
        return False
    return True


def takes(logits: Tensor) -> bool:
    """Whether these logits (W, V) can be looked at here."""
    kind = logits.device.type == "cpu" and logits.dtype in FORMS
    return kind and logits.stride(1) == 1 and available()


def largest(logits: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
    """The largest logits (n,) float32 of the rows `where` (n,) int64, and the first tokens that have it.

    NaN where a row holds what is no number, or +infinity.
    """
    best, ids = torch.empty(len(where)), torch.empty(len(where), dtype=torch.int64)
    library().largest(byref(struct(logits, where)), best.data_ptr(), ids.data_ptr())
    return best, ids


def winners(
    logits: Tensor, where: Tensor, states: Tensor, heats: Tensor, floors: Tensor | None = None
) -> Tensor:
    """Whose logits / heats + noise are largest, ids (n,) int64 of the rows `where` (n,) int64.

    states (n,) int64 become the keys of the noise, once they are mixed; heats and floors (n,) float32; of
    floors, what is below is out, once divided. Below 0 is an id where no token is left, a logit is no number,
    or several are TOO_NEAR to each other to tell.
    """
    ids = torch.empty(len(where), dtype=torch.int64)
    least = None if floors is None else floors.data_ptr()
    places = states.data_ptr(), heats.data_ptr(), least, ids.data_ptr()
    library().winners(byref(struct(logits, where)), *places)
    return ids


def floors(
    logits: Tensor, where: Tensor, heats: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor
) -> Tensor:
    """The least logits / heats (n,) float32 that top-k leaves of the rows `where`, of that top-p, then min-p.

    top_k (n,) int32, the others float32; 0, 1.0 and 0.0 take nothing away.
    """
    rows, made = struct(logits, where), torch.empty(len(where))
    cuts = Cuts(*(values.data_ptr() for values in (heats, top_k, top_p, min_p)))
    memory = scratch(library().cut_bytes(byref(rows)))
    library().cut(byref(rows), byref(cuts), made.data_ptr(), memory.data_ptr())
    return made


def struct(logits: Tensor, where: Tensor) -> Logits:
    """It points into both."""
    return Logits(
        rows=len(where),
        width=logits.shape[1],
        form=FORMS[logits.dtype],
        threads=torch.get_num_threads(),
        stride=logits.stride(0),
        values=logits.data_ptr(),
        where=where.data_ptr(),
    )
