"""A model whose packed weights are mapped from a WeightFile: nothing is packed, or read from its own files.

Knows how transformers builds a model and puts weights into it; not who has kept the file.
"""

import contextlib
import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from inference.model.gguf.replace_blocks import load_with_blocks
from inference.model.load.checkpoint_quantization import QUANTIZATION_CONFIG
from inference.model.load.formats import WeightsFormat, is_gguf
from inference.model.load.generation_config import read_generation_config
from inference.model.quantization.find_weights import STACK
from inference.model.quantization.replace import packed_matrices
from inference.native.weight_cache.file import BadWeightFile, MappedMatrix, WeightFile, map_weight_file
from inference.native.weight_cache.prune import mark_used

log = logging.getLogger(__name__)


def mapped_format(path: Path, plain_format: WeightsFormat) -> WeightsFormat:
    """The format of a model whose packed weights are in the file at `path`, as soon as that exists.

    plain_format: how the model is loaded if the file cannot be used
    """
    return WeightsFormat(
        lambda source: path.exists(), plain_format.files, partial(open_mapped, path, plain_format)
    )


def open_mapped(
    path: Path,
    plain_format: WeightsFormat,
    auto_class: Any,
    source: Path,
    *,
    config: Any,
    dtype: torch.dtype,
    **options: Any,
) -> tuple[Any, set[str]]:
    """Load the model with mapped weights, and the names of its missing weights, of which there are none.

    A file that cannot be used is removed, and the model is loaded as if there were none.
    """
    try:
        loaded = load_mapped(auto_class, source, copy.deepcopy(config), dtype, map_weight_file(path))
        mark_used(path)
        return loaded
    except (OSError, BadWeightFile) as error:
        log.warning("the weights are packed again: %s: %s", path, error)
        with contextlib.suppress(OSError):  # another user's
            path.unlink()
    return plain_format.open(auto_class, source, config=config, dtype=dtype, **options)


@dataclass(frozen=True, slots=True)
class MappedWeight:
    """A weight of a WeightFile: shape of the parameter, and the places of its matrix, or of its experts'."""

    file: WeightFile
    shape: tuple[int, ...]
    places: Sequence[Mapping[str, Any]]

    def pack(self, bias: Tensor | None) -> MappedMatrix:
        (place,) = self.places
        return MappedMatrix(self.file, place, bias)

    def dequantize(self, dtype: torch.dtype) -> Tensor:
        raise BadWeightFile("it has packed a weight that is not packed")


@dataclass(frozen=True, slots=True)
class MappedStack(MappedWeight):
    """The stacked weights of experts."""

    def experts(self) -> Iterator[MappedWeight]:
        return (MappedWeight(self.file, self.shape[1:], [place]) for place in self.places)


def load_mapped(
    auto_class: Any, source: Path, config: Any, dtype: torch.dtype, file: WeightFile
) -> tuple[Any, set[str]]:
    """The model with the file's weights. Raises BadWeightFile if it lacks some."""
    if hasattr(config, QUANTIZATION_CONFIG):
        delattr(config, QUANTIZATION_CONFIG)  # the packed weights stand for those of the files
    with torch.device("meta"):
        skeleton = auto_class.from_config(config, dtype=dtype)
    shapes = {
        name: tuple(weight.shape)  # also of those that are tied until weights of their own are loaded
        for name, weight in skeleton.named_parameters(remove_duplicate=False)
    }
    if missing_names := file.matrices.keys() - shapes:
        raise BadWeightFile(f"the model has no {min(missing_names)}")
    weights = {
        name: (MappedStack if len(shapes[name]) == STACK else MappedWeight)(file, shapes[name], places)
        for name, places in file.matrices.items()
    }
    generation_config = None if is_gguf(source) else read_generation_config(source)
    model, missing = load_with_blocks(
        skeleton, config, dtype, file.read_tensors(), weights, generation_config
    )
    if missing:
        raise BadWeightFile(f"it lacks {min(missing)}")
    return model, missing


def mapped_file(model: Any) -> WeightFile | None:
    """The file that the model's weights are mapped from; None if they are in memory."""
    matrices = packed_matrices(model)
    return next((matrix.file for matrix in matrices if isinstance(matrix, MappedMatrix)), None)
