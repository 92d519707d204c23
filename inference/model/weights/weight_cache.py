"""WeightCache: keeps the packed weights of a model in a file, which later starts map.

Processes with the same model share the memory. mapped_model.py loads a model from such a file.
"""

import hashlib
import logging
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import transformers
from torch import Tensor
from transformers.utils import CONFIG_NAME

from inference.finding import format_size
from inference.model.load.checkpoint_quantization import QUANTIZATION_CONFIG
from inference.model.load.formats import WeightsFormat, is_gguf
from inference.model.quantization.error import QuantError
from inference.model.quantization.packed_tensor import PackedTensor
from inference.model.quantization.replace import matrices_of
from inference.model.weights.mapped_model import mapped_file, open_mapped
from inference.native.build import NativeUnavailable
from inference.native.cpu_levels import processor_features
from inference.native.library import library_id
from inference.native.packed_matrix import PackedMatrix
from inference.native.weight_cache.file import write_weight_file
from inference.native.weight_cache.prune import prune
from inference.native.weight_cache.source_files import (
    SUFFIX,
    SourceFile,
    digest,
    digest_source_files,
    read_source_files,
)
from inference.process.filesystem import SPARE_BYTES, free_disk_bytes

MIN_BYTES = 1 << 24  # smaller models are packed and quantized in a moment
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
    folder: Path, source: Path, dtype: str, quantize: str, imatrix: str, formats: Sequence[WeightsFormat]
) -> WeightCache | None:
    """The cache of the model at `source`; None for a model that cannot be kept.

    imatrix: the path of IMATRIX, or empty. formats: how the model is loaded: the first that matches. Pickles
    are not kept: they need a permission.
    """
    plain_format = next((each for each in formats if each.matches(source)), None)
    if plain_format is None or plain_format.can_run_code:
        return None
    files = [*plain_format.files(source), *([] if is_gguf(source) else [source / CONFIG_NAME])]
    processor = digest(sorted(processor_features()))
    try:
        source_files = read_source_files(files)
        scheme = {"quantize": quantize} | ({"imatrix": digest_imatrix(imatrix)} if imatrix else {})
    except OSError:
        return None
    variant = {"dtype": dtype, **scheme, "processor": processor}
    return WeightCache(folder, source_files, variant, plain_format)


def digest_imatrix(imatrix: str) -> str:
    """Raises OSError."""
    return hashlib.sha256(Path(imatrix).expanduser().read_bytes()).hexdigest()


def plain_tensors(model: Any) -> dict[str, Tensor]:
    """The other parameters, and the buffers that weight files have."""
    parameters = {name: each for name, each in model.named_parameters() if not isinstance(each, PackedTensor)}
    saved = model.state_dict()
    return parameters | {name: each for name, each in model.named_buffers() if name in saved}


def lower_priority() -> None:
    """Let this thread compute only while others are idle, where threads have priorities of their own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
