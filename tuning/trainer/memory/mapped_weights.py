"""The packed weights that the server has kept in a file: what they take of a trainer that maps them.

Knows the header of a WeightFile; reads no weights.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from inference.native.packed_matrix import NATIVE_DTYPES
from inference.native.structs import NativeDtype
from inference.native.weight_cache.file import BadWeightFile, read_header
from tuning.trainer.model.base_model import qlora_scheme
from tuning.types import Hyperparameters, TrainingBase


@dataclass(frozen=True, slots=True)
class MappedWeights:
    """The weights in a file.

    matrix_bytes        of the packed matrices: pages of the file, which all processes that map it share
    num_copied          values of the other tensors, of which each process has a copy
    rounds_activations  products with some of the matrices round their inputs to 8 bits
    """

    matrix_bytes: int
    num_copied: int
    rounds_activations: bool

    def own_bytes(self, itemsize: int, *, is_shared: bool) -> int:
        """Bytes of a trainer's process. itemsize: of the copies; is_shared: the server has the matrices."""
        return self.num_copied * itemsize + (0 if is_shared else self.matrix_bytes)


def has_served_weights(base: TrainingBase, hyperparameters: Hyperparameters) -> bool:
    """Whether a job's frozen weights are those that the server computes with: as many bits, none trained."""
    return (
        not hyperparameters.is_full
        and qlora_scheme(hyperparameters.quantize_base, base.device) == base.quantize
    )


def read_mapped_weights(weight_file: str) -> MappedWeights | None:
    """None: there is no such file, or a trainer cannot map it."""
    try:
        entries = read_header(Path(weight_file)) if weight_file else None
    except (OSError, BadWeightFile):
        return None
    if entries is None:
        return None
    matrices = [matrix for stack in entries["matrices"].values() for matrix in stack]
    return MappedWeights(
        matrix_bytes=sum(matrix[name][1] for matrix in matrices for name in ("values", "scales")),
        num_copied=sum(math.prod(tensor["shape"]) for tensor in entries["tensors"].values()),
        rounds_activations=any(
            NativeDtype(matrix["dtype"]) not in NATIVE_DTYPES.values() for matrix in matrices
        ),
    )
