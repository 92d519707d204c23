"""The processes that compute one model together, its tensors split between them: ranks 0 to count - 1.

Knows torch.distributed and what transformers is told to load a rank's part. Nothing of what is computed.
"""

import os
from datetime import timedelta
from typing import Any

import torch
from torch import distributed
from transformers.distributed import DistributedConfig

HERE = "127.0.0.1"  # all ranks are on this machine
# How long a rank waits for the others within a computation. One that ends is noticed at once.
PATIENCE = timedelta(minutes=10)
BACKENDS = {"cpu": "gloo", "cuda": "nccl"}


def meeting(count: int) -> distributed.TCPStore:
    """Where the ranks find each other: on a port that the system picks. For rank 0, which keeps it."""
    return distributed.TCPStore(HERE, 0, count, is_master=True, wait_for_workers=False, timeout=PATIENCE)


def meeting_at(port: int, count: int) -> distributed.TCPStore:
    """The same, for the other ranks."""
    return distributed.TCPStore(HERE, port, count, is_master=False, timeout=PATIENCE)


def join(store: distributed.Store, rank: int, count: int, device: str) -> None:
    """Become this rank. On CUDA it has a GPU of its own, on the CPU its share of the processor's threads."""
    os.environ["LOCAL_RANK"] = str(rank)  # transformers loads onto the GPU of this number
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # not by this machine's name, which may lead nowhere
    if device == "cuda":
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(max(1, torch.get_num_threads() // count))
    distributed.init_process_group(
        BACKENDS[device], store=store, rank=rank, world_size=count, timeout=PATIENCE
    )


def leave() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()


def part() -> dict[str, Any]:
    """What `from_pretrained` is told so that it loads this rank's part, by the model's own plan."""
    if not distributed.is_initialized():
        return {}
    return {"distributed_config": DistributedConfig(tp_size=distributed.get_world_size())}
