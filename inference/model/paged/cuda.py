"""Captures a step as a CUDA graph, after two warm-up runs.

Knows torch's graphs and streams, and which devices a model is on; nothing of what it computes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import distributed as dist
from transformers import PreTrainedModel


class CudaGraphRecorder:
    """Captures CUDA graphs on one device. They share memory: an output is valid until the next replay."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream(device)

    def __call__(self, compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        """Capture `compute`; the result replays it and returns its output.

        Raises RuntimeError for a step that cannot be captured, such as one that synchronizes with the device.
        """
        with torch.cuda.device(self.device):
            self._warm_up(compute)
            graph = torch.cuda.CUDAGraph()
            # thread_local: other threads may query the device's free memory during the capture.
            with torch.cuda.graph(
                graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
            ):
                output = compute()

        def replay() -> torch.Tensor:
            graph.replay()
            return output

        return replay

    def _warm_up(self, compute: Callable[[], torch.Tensor]) -> None:
        here = torch.cuda.current_stream()
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            compute()
            with forbid_synchronization():
                compute()
        here.wait_stream(self.stream)


@contextmanager
def forbid_synchronization() -> Iterator[None]:
    """Within the context, a synchronization with the device raises RuntimeError.

    Detected only during a capture, it would leave torch's memory pool inconsistent.
    """
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def is_single_gpu(model: PreTrainedModel) -> bool:
    """Whether the whole model computes on one GPU, in one process."""
    devices = {weight.device for weight in model.parameters()}
    return len(devices) == 1 and model.device.type == "cuda" and not is_sharded()


def is_sharded() -> bool:
    """Whether this process is a rank of tensor parallelism."""
    return dist.is_available() and dist.is_initialized()
