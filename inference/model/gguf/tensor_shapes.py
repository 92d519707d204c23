"""Compares the tensor table of a GGUF file with the model of its config, before any value is read."""

from math import prod
from typing import Any

from inference.model.load.gguf.file.header import GgufHeader
from inference.model.load.gguf.tensors.processors import map_known_names
from inference.model.quantization.find_weights import MATRIX

Mismatch = tuple[str, tuple[int, ...], tuple[int, ...]]


def mismatched_tensors(header: GgufHeader, model: Any) -> tuple[Mismatch, ...]:
    """(name, shape in the file, shape in the model) of tensors with more or fewer values than the model's.

    model: on the meta device. Experts, which loading combines, are not compared, nor is anything of a model
    whose tensors transformers does not name.
    """
    _, names = map_known_names(header.architecture, model)
    shapes = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
    pairs = ((each, shapes.get(names.get(each.name, ""))) for each in header.tensors or ())
    return tuple(
        (tensor.name, tensor.shape[::-1], shape)
        for tensor, shape in pairs
        if shape and len(tensor.shape) <= MATRIX and prod(tensor.shape) != prod(shape)
    )
