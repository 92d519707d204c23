"""Reads packed weights: the native matrix, its first rows, and the parts of merged projections.

Knows packed weights; nothing of what a model does with them.
"""

from typing import Any

import torch

from inference.model.batch import UnsupportedModel
from inference.native.library import library
from inference.native.packed_matrix import PANEL
from inference.native.structs import Matrix

FLOAT = torch.float32.itemsize


def packed_weight_of(module: Any) -> Any:
    """The packed weight of a linear layer or embedding.

    Raises UnsupportedModel if the weight is not packed, is transposed, or the layer has a bias that the
    matrix does not add.
    """
    weight = module.weight
    if getattr(weight, "matrix", None) is None or weight.is_transposed:
        raise UnsupportedModel(f"the weight of a {type(module).__name__} is not packed")
    if getattr(module, "bias", None) is not weight.bias:
        raise UnsupportedModel(f"a {type(module).__name__} has a bias that its packed matrix does not add")
    return weight


def first_rows(matrix: Matrix, count: int) -> torch.Tensor:
    """The first rows, dequantized: (count, inputs), float32."""
    values = torch.empty(count, matrix.inputs, dtype=torch.float32)
    for row in range(count):
        library().matrix_row(matrix, row, values[row].data_ptr())
    return values


def split_matrix(matrix: Matrix, sizes: tuple[int, ...]) -> list[Matrix]:
    """Split a matrix into parts of sizes[i] outputs each, which share its memory.

    Raises UnsupportedModel if a size is not a multiple of PANEL.
    """
    if sum(sizes) != matrix.outputs or any(size % PANEL for size in sizes):
        raise UnsupportedModel(f"{matrix.outputs} outputs cannot be split at whole panels into {sizes}")
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    return [matrix_slice(matrix, start, size) for start, size in zip(starts, sizes, strict=True)]


def matrix_slice(matrix: Matrix, start: int, size: int) -> Matrix:
    values = library().matrix_bytes(matrix.dtype, start, matrix.inputs)
    scales = library().matrix_scale_bytes(matrix.dtype, start, matrix.inputs)
    return Matrix(
        matrix.dtype,
        size,
        matrix.inputs,
        matrix.padded,
        offset_address(matrix.values, values),
        offset_address(matrix.scales, scales),
        offset_address(matrix.bias, start * FLOAT),
    )


def offset_address(address: int | None, count: int) -> int | None:
    return None if address is None else address + count


def check_shape(name: str, matrix: Matrix, outputs: int, inputs: int) -> Matrix:
    """Return the matrix. Raises UnsupportedModel if its shape is not (outputs, inputs)."""
    if (matrix.outputs, matrix.inputs) != (outputs, inputs):
        raise UnsupportedModel(f"{name} is {matrix.outputs} × {matrix.inputs}, not {outputs} × {inputs}")
    return matrix
