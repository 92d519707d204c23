"""What the processes of data parallelism exchange: sums of gradients, and rank 0's weights.

Every process calls the same function with tensors of the same shapes in the same order. Knows
torch.distributed; not what is trained.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, distributed, nn

BUCKET_BYTES = 1 << 24  # of the tensors that travel as one: a message costs more than a small tensor


def sum_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Replace rank 0's gradients by the sums over all processes; those of the others are undefined then."""
    for weight in parameters:
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
    gradients = [weight.grad for weight in parameters if weight.grad is not None]
    exchange(gradients, partial(distributed.reduce, dst=0))


def copy_weights(parameters: Sequence[nn.Parameter]) -> None:
    """Give every process the values that rank 0 has."""
    exchange(parameters, partial(distributed.broadcast, src=0))


@torch.no_grad()
def exchange(tensors: Sequence[Tensor], collective: Callable[[Tensor], object]) -> None:
    """Apply a collective, which changes a tensor in place, to contiguous tensors of one dtype."""
    for bucket in buckets(tensors):
        if len(bucket) == 1:  # a large one is not copied
            collective(bucket[0])
            continue
        flat = torch.cat([tensor.flatten() for tensor in bucket])
        collective(flat)
        for tensor, values in zip(bucket, flat.split([each.numel() for each in bucket]), strict=True):
            tensor.copy_(values.view_as(tensor))


def buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Consecutive tensors of at most BUCKET_BYTES together; a larger one is alone."""
    bucket: list[Tensor] = []
    for tensor in tensors:
        if bucket and sum(each.nbytes for each in (*bucket, tensor)) > BUCKET_BYTES:
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket
