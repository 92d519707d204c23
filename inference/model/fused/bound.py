"""A reading handed to native code: its structs, over the pages of one pool.

Knows ctypes and addresses; nothing of transformers.
"""

from ctypes import POINTER, cast

import torch
from torch import Tensor

from inference.model.fused.reading import Block, Reading
from inference.model.packed.pool import Pages, Pool
from inference.native.structs import Kind, Layer, Model

FORMS = {torch.float32: Kind.F32, torch.bfloat16: Kind.BF16}


def fill(pool: Pool, reading: Reading) -> None:
    """Make the pool's pages, which otherwise a first call would."""
    for block in reading.blocks:
        pool.modules[block.attention] = Pages(pool.blank(reading.keys), pool.blank(reading.keys))


def model_of(reading: Reading, pool: Pool, threads: int) -> Model:
    """What step_run takes. It points into the reading and the pool, which must live as long."""
    layers = [layer_of(block, pool.modules[block.attention]) for block in reading.blocks]
    return Model(
        layers=len(layers),
        **reading.shape._asdict(),
        rotary=reading.rotary,
        activation=reading.activation,
        form=FORMS[reading.keys.dtype],
        page=pool.size,
        threads=threads,
        epsilon=reading.epsilon,
        **reading.scales._asdict(),
        embedding=reading.embedding,
        head_matrix=reading.head_matrix,
        last_norm=reading.last_norm.data_ptr(),
        layer=cast((Layer * len(layers))(*layers), POINTER(Layer)),
    )


def layer_of(block: Block, pages: Pages) -> Layer:
    return Layer(
        **block.matrices,
        **{place: weight.data_ptr() for place, weight in block.norms.items()},
        cos=address(block.cos),
        sin=address(block.sin),
        window=block.window,
        keys=pages.keys.data_ptr(),
        values=pages.values.data_ptr(),
    )


def address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
