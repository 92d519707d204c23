"""The process group of tensor parallelism: ranks 0 to num_shard - 1, each with a shard of the weights.

Knows torch.distributed and the from_pretrained arguments that load a rank's shard; not what is computed.
"""

import os
import sys
from datetime import timedelta
from typing import Any

import torch
from torch import distributed
from transformers.distributed import DistributedConfig

LOCALHOST = "127.0.0.1"  # all ranks are on this machine
# How long a rank waits for the others in a collective. A rank whose process ends is noticed at once.
TIMEOUT = timedelta(minutes=10)
# For gloo, whose default is the interface of the host name, which may not resolve.
LOOPBACK_INTERFACES = {"linux": "lo", "darwin": "lo0"}
BACKENDS = {"cpu": "gloo", "cuda": "nccl"}
LOCAL_RANK = "LOCAL_RANK"  # the environment variable in which libraries look for it


def create_store(num_shard: int) -> distributed.TCPStore:
    """Create rank 0's rendezvous store on a free port (store.port). Rank 0 must keep it alive."""
    return distributed.TCPStore(
        LOCALHOST, 0, num_shard, is_master=True, wait_for_workers=False, timeout=TIMEOUT
    )


def connect_store(port: int, num_shard: int) -> distributed.TCPStore:
    """Connect another rank to rank 0's store."""
    return distributed.TCPStore(LOCALHOST, port, num_shard, is_master=False, timeout=TIMEOUT)


def join_process_group(store: distributed.Store, rank: int, num_shard: int, device: str) -> None:
    """Make this process a rank. On CUDA it uses GPU `rank`, on the CPU its share of torch's threads."""
    os.environ[LOCAL_RANK] = str(rank)  # transformers loads onto the GPU of this number
    if interface := LOOPBACK_INTERFACES.get(sys.platform):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    if device == "cuda":
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(max(1, torch.get_num_threads() // num_shard))
    distributed.init_process_group(
        BACKENDS[device], store=store, rank=rank, world_size=num_shard, timeout=TIMEOUT
    )


def leave_process_group() -> None:
    os.environ.pop(LOCAL_RANK, None)  # a later model, or a child of this process, is no rank
    if distributed.is_initialized():
        distributed.destroy_process_group()


def tensor_parallel_kwargs() -> dict[str, Any]:
    """Arguments of `from_pretrained` that load this rank's shard by the model's own tp_plan; {} if single."""
    if not distributed.is_initialized():
        return {}
    return {"distributed_config": DistributedConfig(tp_size=distributed.get_world_size())}
