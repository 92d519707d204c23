"""The native matrix that a layer's weight is, its rows, and parts of it where one layer is several.

Knows packed weights; nothing of what a model does with them.
"""

from typing import Any

import torch

from inference.model.unfit import Unfit
from inference.native.library import library
from inference.native.structs import Matrix

PANEL = 16  # outputs that stand together (matrix.h)
FLOAT = torch.float32.itemsize


def weight_of(module: Any) -> Any:
    """The packed weight of a layer, of which its matrix is all that it computes with. Raises Unfit."""
    weight = module.weight
    if getattr(weight, "matrix", None) is None or weight.turned:
        raise Unfit(f"the weight of a {type(module).__name__} is not packed")
    if getattr(module, "bias", None) is not weight.bias:
        raise Unfit(f"a {type(module).__name__} adds what its matrix does not")
    return weight


def rows(matrix: Matrix, count: int) -> torch.Tensor:
    """The first rows (count, inputs) as they are computed with, float32."""
    found = torch.empty(count, matrix.inputs)
    for row in range(count):
        library().matrix_row(matrix, row, found[row].data_ptr())
    return found


def parts(whole: Matrix, sizes: tuple[int, ...]) -> list[Matrix]:
    """The matrix as several, of so many outputs each. Raises Unfit where panels would be cut."""
    if sum(sizes) != whole.outputs or any(size % PANEL for size in sizes):
        raise Unfit(f"{whole.outputs} outputs are not whole panels for {sizes}")
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    return [part(whole, start, size) for start, size in zip(starts, sizes, strict=True)]


def part(whole: Matrix, start: int, size: int) -> Matrix:
    values = library().matrix_bytes(whole.kind, start, whole.inputs)
    scales = library().matrix_scale_bytes(whole.kind, start, whole.inputs)
    return Matrix(
        whole.kind,
        size,
        whole.inputs,
        whole.padded,
        behind(whole.values, values),
        behind(whole.scales, scales),
        behind(whole.bias, start * FLOAT),
    )


def behind(address: int | None, count: int) -> int | None:
    return None if address is None else address + count


def shaped(name: str, matrix: Matrix, outputs: int, inputs: int) -> Matrix:
    """The matrix, if it is (outputs, inputs). Raises Unfit."""
    if (matrix.outputs, matrix.inputs) != (outputs, inputs):
        raise Unfit(f"{name} is {matrix.outputs} × {matrix.inputs}, not {outputs} × {inputs}")
    return matrix
