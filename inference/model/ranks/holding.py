"""What each rank holds of memory, told to all of them.

Knows torch.distributed; what there is to hold stands in held.py.
"""

from collections.abc import Generator, Sequence
from typing import Any

import torch
from torch import distributed

from inference.model.batch import Runner
from inference.model.held import Held, held


def holding(
    model: Any, runner: Runner, gpus: Sequence[int], afresh: bool
) -> Generator[None, None, list[Held]]:
    """By rank. A step for every rank to do at the same time; where GPUs are asked for, each has its own."""
    mine = held(model, runner, [torch.cuda.current_device()] if gpus else [], afresh)
    found: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(found, mine)
    yield
    return found
