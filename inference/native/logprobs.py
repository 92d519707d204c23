"""Log probabilities of tokens and their gradients, from logits on the CPU, computed by the C library.

Knows tensors and the library; knows no model and no loss.
"""

from ctypes import byref

import torch
from torch import Tensor

from inference.native.library import library
from inference.native.sampling import argmax, logits_struct


def token_logprobs(logits: Tensor, ids: Tensor, gradients: Tensor | None) -> tuple[Tensor, Tensor]:
    """The log probability (W,) float32 of token ids[i] in row i, and the most probable tokens (W,).

    logits     (W, V) that sampling.supports
    ids        (W,) int64, contiguous, in [0, V)
    gradients  (W, V) contiguous, in the dtype of the logits: filled with those of each log probability

    All are NaN for a row with NaN or +infinity, or whose logits are all -infinity.
    """
    rows, logprobs = torch.arange(len(logits)), torch.empty(len(logits), dtype=torch.float32)
    largest, top_ids = argmax(logits, rows)
    places = largest.data_ptr(), ids.data_ptr(), logprobs.data_ptr()
    to = None if gradients is None else gradients.data_ptr()
    library().token_logprobs(byref(logits_struct(logits, rows)), *places, to)
    return logprobs, top_ids
