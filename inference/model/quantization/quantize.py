"""Packs or quantizes a model's weights into native matrices or those of a GPU, and verifies the result.

Knows the Reference; the other files of this folder find, replace and time weights.
"""

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from inference.errors import BadRequest, Unavailable
from inference.model.merge_projections import max_recompute_error
from inference.model.quantization.dequantized import Dequantized
from inference.model.quantization.device_matrix import DeviceMatrix
from inference.model.quantization.error import QuantError, measure_quant_error
from inference.model.quantization.imatrix import BadImatrix, importance_of
from inference.model.quantization.is_faster import packing_is_faster
from inference.model.quantization.packed_linear import call_matrices
from inference.model.quantization.packed_tensor import PackedTensor
from inference.model.quantization.replace import (
    NO_IMPORTANCE,
    ReplacedWeight,
    packed_weights,
    replace_weights,
    restore_weights,
)
from inference.model.quantization.schemes import DEVICE_SCHEMES, NONE, Quantization
from inference.model.reference import COLUMNS, Reference
from inference.native.build import NativeUnavailable
from inference.native.packed_matrix import PackedMatrix, ensure_library
from inference.native.structs import NativeDtype

log = logging.getLogger(__name__)

MIN_BYTES = 1 << 22  # bytes of weights; a smaller model is packed only if required
WARN_ERROR = 1.0  # a larger change of a logit, in standard deviations, is logged as a warning
# Largest rms difference, in standard deviations, between the logits of native and of torch matmuls on the
# same quantized weights. Native matmuls round activations to 8 bits. A faulty kernel yields unrelated logits:
# their difference is √2 ≈ 1.4.
MAX_RMS_ERROR = 0.5


def use_packed_weights(
    model: PreTrainedModel, reference: Reference, tolerance: float, *, required: bool = False
) -> bool:
    """Pack the weights in their own dtype, if that is correct and, unless `required`, faster than torch.

    tolerance: largest accepted error of a logit, in standard deviations. Returns whether the weights are now
    packed; if not, the model is unchanged.
    """
    if not (required or sum(weight.nbytes for weight in model.parameters()) >= MIN_BYTES):
        return False
    try:
        ensure_library()
    except NativeUnavailable as reason:
        log.info("%s: matmuls stay in torch: %s", model.config.model_type, reason)
        return False
    if not (required or packing_is_faster(model, PackedMatrix.pack)):
        return False
    swaps = replace_weights(model, NONE, PackedMatrix.pack)
    error = max_recompute_error(reference)
    if not error <= tolerance:
        restore_weights(swaps)
        log.info("%s: weights not packed: error %.0e", model.config.model_type, error)
        return False
    restore_unpacked(model, swaps)
    return True


def quantize_weights(
    model: PreTrainedModel, reference: Reference, quantization: Quantization
) -> tuple[Reference, QuantError]:
    """Quantize the weights for products on the device; returns the new reference and the quantization error.

    The new reference is the quantized model's own logits: runners are compared with these. The kernels are
    verified separately, against torch on the same weights dequantized, which distinguishes a faulty kernel
    from quantization error. Raises Unavailable if there is no native library, or its kernels are wrong,
    and BadRequest for a file that is not of this model.
    """
    name, scheme = model.config.model_type, quantization.scheme
    device = quantization.device or model.device.type
    if scheme not in DEVICE_SCHEMES[torch.device(device).type]:
        raise Unavailable(f"QUANTIZE={scheme} has no kernels for a GPU; set QUANTIZE=int4 or DEVICE=cpu")
    try:
        swaps = pack_on(model, scheme, device, read_importance(model, quantization.imatrix))
    except NativeUnavailable as reason:
        raise Unavailable(f"QUANTIZE={scheme} has no kernels: {reason}; set QUANTIZE=none") from reason
    quantized_reference = Reference(model)
    if restore_unpacked(model, swaps):  # tensors again, whose matmuls do not round activations to 8 bits
        quantized_reference = Reference(model)
    expected = [logits.to(model.device) for logits in reference.logits]
    error = measure_quant_error(expected, quantized_reference.logits)
    kernel_error = measure_kernel_error(quantized_reference)
    if not kernel_error <= MAX_RMS_ERROR:
        raise Unavailable(
            f"{name} is computed wrongly with QUANTIZE={scheme}: error {kernel_error:.1f} sd; "
            "set QUANTIZE=none"
        )
    if device != "cpu":
        call_matrices(model)
    log_error = log.warning if error.max_error > WARN_ERROR else log.info
    log_error("%s: quantized to %s: %s; kernel error %.3f sd", name, scheme, error, kernel_error)
    return quantized_reference, error


def measure_kernel_error(reference: Reference) -> float:
    """The rms difference between the logits of native products, which the reference has, and of torch's.

    In standard deviations of the logits. torch computes with the same weights, dequantized.
    """
    with Dequantized():
        logits = reference.compute_logits(0, COLUMNS)
    return measure_quant_error([logits], reference.logits[:1]).rms


def verify_packed_weights(model: PreTrainedModel, reference: Reference) -> Reference:
    """Verify the kernels of a model that was loaded with packed weights; returns its reference from now on.

    Weights that the model uses beyond products become tensors. If the kernels are wrong, all do.
    """
    name = model.config.model_type
    if restore_unpacked(model, packed_weights(model)):
        reference = Reference(model)
    error, swaps = measure_kernel_error(reference), packed_weights(model)
    if not error <= MAX_RMS_ERROR:
        log.warning("%s: weights unpacked: kernel error %.1f sd", name, error)
        restore_weights(swaps)
        return Reference(model)
    log.info("%s: %d weights stay packed; kernel error %.3f sd", name, len(swaps), error)
    return reference


def read_importance(model: PreTrainedModel, imatrix: Path | None) -> Mapping[str, Tensor]:
    """See importance_of. Raises BadRequest."""
    if imatrix is None:
        return NO_IMPORTANCE
    try:
        importance = importance_of(model, imatrix)
    except BadImatrix as error:
        raise BadRequest("IMATRIX", str(error)) from None
    log.info(
        "%s: %s: the importance of inputs of %d weights", model.config.model_type, imatrix, len(importance)
    )
    return importance


def pack_on(
    model: PreTrainedModel, quantize: str, device: str, importance: Mapping[str, Tensor] = NO_IMPORTANCE
) -> list[ReplacedWeight]:
    """Pack the weights, wherever they are, for products on the device, and move the rest of the model there.

    importance: of inputs, see importance_of; on a CPU. Raises NativeUnavailable if the CPU has no kernels.
    """
    if device != "cpu":
        swaps = replace_weights(model, quantize, partial(pack_on_device, device), model.device.type)
        move_unpacked(model, device)
        return swaps
    ensure_library()
    return replace_weights(model, quantize, PackedMatrix.pack, importance=importance)


def pack_on_device(device: str, weight: Tensor, dtype: NativeDtype, bias: Tensor | None) -> DeviceMatrix:
    return DeviceMatrix.pack(weight.to(device), dtype, None if bias is None else bias.to(device))


def move_unpacked(model: nn.Module, device: str) -> None:
    """Move the parameters that are not packed, and the buffers, to the device."""
    for tensor in (*model.parameters(), *model.buffers()):
        if not isinstance(tensor, PackedTensor):
            tensor.data = tensor.data.to(device)


def restore_unpacked(model: PreTrainedModel, swaps: list[ReplacedWeight]) -> bool:
    """Turn weights that the forward pass unpacks back into plain tensors: unpacking at each step is slow.

    Empties `swaps`, so that no packed weight is kept beside its tensor. Returns whether there were any.
    """
    unpacked = [each for each in swaps if each.weight.num_unpacked]
    swaps.clear()
    if unpacked:
        log.info("%s: %d weights unpacked: used beyond matmuls", model.config.model_type, len(unpacked))
        restore_weights(unpacked)
        return True
    return False
