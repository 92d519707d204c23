"""WeightCache: loads a model whose packed weights an earlier start has kept, and keeps those of a new one.

The packed weights are mapped from a file of the cache, so nothing is packed or read from the model's own
files, and processes with the same model share the memory. Knows models and WeightFile.
"""

import contextlib
import copy
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers.utils import CONFIG_NAME

from inference.finding import format_size
from inference.model.gguf.replace_blocks import load_with_blocks
from inference.model.load.checkpoint_quantization import QUANTIZATION_CONFIG
from inference.model.load.formats import WeightsFormat, is_gguf
from inference.model.load.generation_config import read_generation_config
from inference.model.quantization.error import QuantError
from inference.model.quantization.find_weights import STACK
from inference.model.quantization.packed_tensor import PackedTensor
from inference.model.quantization.replace import matrices_of, packed_matrices
from inference.native.build import NativeUnavailable
from inference.native.cpu_levels import processor_features
from inference.native.library import library_id
from inference.native.packed_matrix import PackedMatrix
from inference.native.weight_cache.file import (
    BadWeightFile,
    MappedMatrix,
    WeightFile,
    map_weight_file,
    write_weight_file,
)
from inference.native.weight_cache.prune import mark_used, prune
from inference.native.weight_cache.source_files import (
    SUFFIX,
    SourceFile,
    digest,
    digest_source_files,
    read_source_files,
)
from inference.process.filesystem import SPARE_BYTES, free_disk_bytes

MIN_BYTES = 1 << 26  # smaller models are packed in a moment
LOWEST_PRIORITY = 19
TRANSFORMERS = "transformers."  # beginning of the modules of its models

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WeightCache:
    """Where the packed weights of one model are kept.

    folder        the files of all models
    source_files  the model's own files, as they were before they were loaded
    variant       dtype and scheme of the weights, and the processor: each has a file
    plain_format  how the model is loaded without a file of the cache
    """

    folder: Path
    source_files: tuple[SourceFile, ...]
    variant: Mapping[str, str]
    plain_format: WeightsFormat

    @property
    def path(self) -> Path:
        """The model's file, which may not exist. Raises NativeUnavailable."""
        variant_digest = digest([self.variant, library_id(), transformers.__version__])
        return self.folder / f"{digest_source_files(self.source_files)}-{variant_digest}{SUFFIX}"

    @property
    def format(self) -> WeightsFormat:
        """The format of a model that has a file in the cache."""
        return WeightsFormat(self.has_file, self.plain_format.files, self.open)

    def has_file(self, source: Path) -> bool:
        try:
            return self.path.exists()
        except NativeUnavailable:
            return False

    def open(self, auto_class: Any, source: Path, **options: Any) -> tuple[Any, set[str]]:
        return open_mapped(self.path, self.plain_format, auto_class, source, **options)

    def keep(self, model: Any, quant_error: QuantError | None) -> threading.Thread | None:
        """Write the packed weights of a verified model to the cache; returns the thread that does it.

        None if they come from the cache, are few, or cannot be kept. The weights do not change from now on.
        """
        matrices = {name: stack for name, each in model.named_parameters() if (stack := matrices_of(each))}
        tensors = plain_tensors(model)
        size = sum(matrix.nbytes for stack in matrices.values() for matrix in stack)
        size += sum(tensor.nbytes for tensor in tensors.values())
        if size < MIN_BYTES or not matrices or mapped_file(model) or not self.can_keep(model):
            return None
        about = {
            "source_files": [asdict(source) for source in self.source_files],
            "variant": self.variant,
            "quant_error": quant_error and asdict(quant_error),
        }
        arguments = size, about, tensors, matrices
        writer = threading.Thread(target=self.write, args=arguments, name="weight-cache", daemon=True)
        writer.start()
        return writer

    def can_keep(self, model: Any) -> bool:
        """Whether the weights can be loaded again: their files are unchanged, and no library changes them."""
        is_quantized = getattr(model.config, QUANTIZATION_CONFIG, None) is not None
        is_known = type(model).__module__.startswith(TRANSFORMERS)
        return is_known and not is_quantized and all(source.is_unchanged for source in self.source_files)

    def write(
        self,
        size: int,
        about: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        matrices: Mapping[str, Sequence[PackedMatrix]],
    ) -> None:
        """Remove files that are of no use, and write the model's. An error is logged."""
        lower_priority()
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            prune(self.folder, self.path, about)
            free = free_disk_bytes(self.folder)
            if free < size + SPARE_BYTES:
                shortage = f"{format_size(size)} needed, {format_size(max(0, free - SPARE_BYTES))} free"
                log.info("packed weights are not kept for the next start: %s: %s", self.folder, shortage)
                return
            write_weight_file(self.path, about, tensors, matrices)
            log.info("packed weights are kept for the next start: %s: %s", self.path, format_size(size))
        except OSError as error:
            log.info("packed weights are not kept for the next start: %s: %s", self.folder, error)


def allows_cache(
    device: str, num_shard: int, layer_devices: Sequence[str], *, trust_remote_code: bool
) -> bool:
    """Whether the settings let packed weights be kept: one process, on the CPU, with transformers' code."""
    return device == "cpu" and num_shard == 1 and not layer_devices and not trust_remote_code


def open_weight_cache(
    folder: Path, source: Path, dtype: str, quantize: str, formats: Sequence[WeightsFormat]
) -> WeightCache | None:
    """The cache of the model at `source`; None for a model that cannot be kept.

    formats: how the model is loaded: the first that matches. Pickles are not kept: they need a permission.
    """
    plain_format = next((each for each in formats if each.matches(source)), None)
    if plain_format is None or plain_format.can_run_code:
        return None
    files = [*plain_format.files(source), *([] if is_gguf(source) else [source / CONFIG_NAME])]
    processor = digest(sorted(processor_features()))
    try:
        source_files = read_source_files(files)
    except OSError:
        return None
    variant = {"dtype": dtype, "quantize": quantize, "processor": processor}
    return WeightCache(folder, source_files, variant, plain_format)


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
    shapes = {name: tuple(weight.shape) for name, weight in skeleton.named_parameters()}
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


def plain_tensors(model: Any) -> dict[str, Tensor]:
    """The other parameters, and the buffers that weight files have."""
    parameters = {name: each for name, each in model.named_parameters() if not isinstance(each, PackedTensor)}
    saved = model.state_dict()
    return parameters | {name: each for name, each in model.named_buffers() if name in saved}


def lower_priority() -> None:
    """Let this thread compute only while others are idle, where threads have priorities of their own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
