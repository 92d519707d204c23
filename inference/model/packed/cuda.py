"""How a step is recorded as a CUDA graph: run twice to make what is made once, then once to be recorded.

Knows torch's graphs and streams, and where a model is; nothing of what it computes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import distributed as dist
from transformers import PreTrainedModel


class Recorder:
    """Records on one device. All its recordings share memory: the outcome of one lasts until the next."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream(device)

    def __call__(self, compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        """Raises RuntimeError for what cannot be recorded, such as a step that waits for the device."""
        with torch.cuda.device(self.device):
            self._rehearse(compute)
            graph = torch.cuda.CUDAGraph()
            # Other threads may go on asking the device how much memory is free.
            with torch.cuda.graph(
                graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
            ):
                outcome = compute()

        def play() -> torch.Tensor:
            graph.replay()
            return outcome

        return play

    def _rehearse(self, compute: Callable[[], torch.Tensor]) -> None:
        here = torch.cuda.current_stream()
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            compute()
            with unwaiting():
                compute()
        here.wait_stream(self.stream)


@contextmanager
def unwaiting() -> Iterator[None]:
    """Waiting for the device is an error meanwhile. To find that out while a graph is recorded would leave
    torch's memory in disorder."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def alone(model: PreTrainedModel) -> bool:
    """Whether the model's steps are those of one GPU alone."""
    devices = {weight.device for weight in model.parameters()}
    shared = dist.is_available() and dist.is_initialized()
    return len(devices) == 1 and model.device.type == "cuda" and not shared


def recorder(model: PreTrainedModel) -> Recorder | None:
    """A recorder for the model's device; None where its steps are not those of one GPU alone."""
    return Recorder(model.device) if alone(model) else None
