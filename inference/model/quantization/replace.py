"""Replaces a model's weights by packed ones, and back.

Works on one weight at a time, so at most one is in memory twice. Knows modules and matrices; quantize.py
decides whether packing is faster and correct.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from inference.model.quantization.find_weights import FoundWeight, Owner, WeightRole, find_weights, owners_of
from inference.model.quantization.packed_tensor import PackedExperts, PackedTensor, PackedWeight, WeightMatrix
from inference.model.quantization.schemes import packed_dtypes
from inference.native.packed_matrix import NATIVE_DTYPES, PackedMatrix
from inference.native.structs import NativeDtype
from inference.process.memory.malloc import mmap_large_blocks, trim_heap
from inference.process.memory.mmap_release import AddressRange, mapped_files, release_weight

# (weight (outputs, inputs), dtype of the matrix, bias) → matrix; on a CPU also with the inputs' importance
Pack = Callable[..., WeightMatrix]
NO_IMPORTANCE: Mapping[str, Tensor] = MappingProxyType({})
# transformers' experts implementation that indexes the experts one by one, as PackedExperts requires.
ONE_BY_ONE = "eager"
PROGRESS_S = 5

log = logging.getLogger(__name__)


class ReplacedWeight(NamedTuple):
    """A packed weight, and the modules that have it."""

    weight: PackedTensor
    owners: tuple[Owner, ...]


def replace_weights(
    model: Any,
    quantize: str,
    pack: Pack,
    device: str = "cpu",
    importance: Mapping[str, Tensor] = NO_IMPORTANCE,
) -> list[ReplacedWeight]:
    """Pack all weights that find_weights yields on devices of this type, with the dtypes of a scheme.

    quantize: the scheme. importance: see importance_of. The original weights are freed. Logs the progress.
    """
    start_s, pack = time.perf_counter(), with_progress(pack, model)
    weights = list(find_weights(model, device))[::-1]
    todo = list(zip(weights, packed_dtypes(weights, quantize), strict=True))
    del weights  # popping from todo drops the last reference to a weight
    if any(each.role is WeightRole.EXPERTS for each, _ in todo):
        model.set_experts_implementation(ONE_BY_ONE)
    files = mapped_files()  # read once: a file stays mapped while a weight uses it
    done: list[ReplacedWeight] = []
    with mmap_large_blocks():
        while todo:  # popping drops the list's reference to a replaced weight
            done.append(replace_weight(*todo.pop(), pack, files, importance))
    trim_heap()
    seconds = time.perf_counter() - start_s
    log.info("%s: %d weights packed in %.1f s", model.config.model_type, len(done), seconds)
    return done


def with_progress(pack: Pack, model: Any) -> Pack:
    """`pack`, which logs every PROGRESS_S how much of the model it has packed."""
    num_values, logged = 0, time.perf_counter()

    def pack_and_log(
        weight: Tensor, dtype: NativeDtype, bias: Tensor | None, *importance: Tensor
    ) -> WeightMatrix:
        nonlocal num_values, logged
        matrix = pack(weight, dtype, bias, *importance)
        num_values += weight.numel()
        if time.perf_counter() - logged >= PROGRESS_S:
            logged = time.perf_counter()
            log.info("%s: %.1f billion weights packed", model.config.model_type, num_values / 1e9)
        return matrix

    return pack_and_log


def replace_weight(
    found_weight: FoundWeight,
    dtype: NativeDtype,
    pack: Pack,
    files: Sequence[AddressRange],
    importance: Mapping[str, Tensor],
) -> ReplacedWeight:
    weight, inputs = found_weight.weight.detach(), importance.get(found_weight.name)
    native: PackedTensor
    if found_weight.role is WeightRole.EXPERTS:
        of_experts = [None] * len(weight) if inputs is None else list(inputs)
        experts = zip(weight, of_experts, strict=True)
        native = PackedExperts([pack_weight(each, found_weight, dtype, pack, of) for each, of in experts])
    else:
        native = pack_weight(weight, found_weight, dtype, pack, inputs)
    set_parameter(native, found_weight.owners)
    release_weight(weight, files)
    return ReplacedWeight(native, found_weight.owners)


def pack_weight(
    weight: Tensor, found_weight: FoundWeight, dtype: NativeDtype, pack: Pack, importance: Tensor | None
) -> PackedWeight:
    known = () if importance is None else (importance,)
    matrix = pack(rows_of(weight, found_weight.is_transposed), dtype, found_weight.bias, *known)
    return PackedWeight(
        matrix, tuple(weight.shape), weight.dtype, found_weight.bias, found_weight.is_transposed
    )


def rows_of(weight: Tensor, is_transposed: bool) -> Tensor:
    """A view of the weight as (outputs, inputs)."""
    return weight.T if is_transposed else weight


def packed_weights(model: nn.Module) -> list[ReplacedWeight]:
    """The packed weights of the model, and the modules that have them."""
    return [
        ReplacedWeight(weight, owners)
        for weight, owners in owners_of(model)
        if isinstance(weight, PackedTensor)
    ]


def matrices_of(weight: PackedTensor) -> list[PackedMatrix]:
    """The native matrices of a packed weight on the CPU: one, or one per expert."""
    members = weight.members if isinstance(weight, PackedExperts) else [weight]
    matrices = (getattr(member, "matrix", None) for member in members)
    return [matrix for matrix in matrices if isinstance(matrix, PackedMatrix)]


def packed_matrices(model: nn.Module) -> list[PackedMatrix]:
    """The native matrices of all packed weights on the CPU."""
    return [matrix for weight, _ in packed_weights(model) for matrix in matrices_of(weight)]


def rounds_activations(model: nn.Module) -> bool:
    """Whether products with some of the model's packed weights round their inputs to 8 bits."""
    return not all(matrix.dtype in NATIVE_DTYPES.values() for matrix in packed_matrices(model))


def compute_in_float32(model: nn.Module) -> None:
    """Let a model with packed weights compute in float32, with the same values of all weights."""
    for weight, owners in packed_weights(model):
        set_parameter(weight.with_dtype(torch.float32), owners)
    for tensor in (*model.parameters(), *model.buffers()):
        if not isinstance(tensor, PackedTensor) and tensor.is_floating_point():
            tensor.data = tensor.data.to(torch.float32)


def restore_weights(swaps: list[ReplacedWeight]) -> None:
    """Replace packed weights by plain tensors of their dequantized values, one by one; empties `swaps`."""
    with mmap_large_blocks():
        while swaps:
            weight, owners = swaps.pop()
            set_parameter(weight.values().contiguous(), owners)
    trim_heap()


def set_parameter(weight: Tensor, owners: Iterable[Owner]) -> None:
    parameter = nn.Parameter(weight, requires_grad=False)
    for module, name in owners:
        setattr(module, name, parameter)
