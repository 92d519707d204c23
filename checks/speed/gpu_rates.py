"""What a GPU does in a second: times a copy of its memory and a product in the dtype of the model.

A step also launches kernels and attends to the KV cache, so the rates are limits.
"""

import torch

from checks.speed.estimate import Rates
from inference.model.best_times import best_times

COPY_BYTES = 1 << 28  # copied at once: more than the caches of a GPU hold
WIDTH = 4096  # of the square matrices that are multiplied
TURNS = 5


@torch.inference_mode()
def measure_gpu(dtype: torch.dtype, device: str = "cuda") -> Rates:
    """The rates of the device. Takes about 0.1 s after torch has opened it."""
    source = torch.zeros(COPY_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    matrix = torch.zeros(WIDTH, WIDTH, dtype=dtype, device=device)
    copy_s, product_s = best_times([lambda: target.copy_(source), lambda: matrix @ matrix], turns=TURNS)
    bandwidth = 2 * COPY_BYTES / copy_s  # read and written
    return Rates(bandwidth, bandwidth, WIDTH**3 / product_s, is_limit=True)
