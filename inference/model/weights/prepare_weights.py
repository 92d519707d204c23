"""Prepares a model's weights: quantized ones, merged projections on CUDA, packed weights on the CPU.

Each change is verified against the model's own forward pass and undone if it is wrong; quantized weights that
fail are an error. Knows the Reference; not the runners that are later compared with it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from inference.errors import ServerError, Unavailable, named_error
from inference.model import merge_projections
from inference.model.quantization.error import QuantError
from inference.model.quantization.quantize import quantize_weights, use_packed_weights, verify_packed_weights
from inference.model.quantization.replace import packed_weights, rounds_activations
from inference.model.quantization.schemes import NONE, Quantization
from inference.model.reference import Reference
from inference.model.weights.mapped_model import mapped_file

# Bounds (lower, upper) of the tolerance, in standard deviations of the reference logits. Between them it is
# NOISE × the model's own rounding noise. A wrong runner is off by several standard deviations. Half
# precision hides small faults, but a runner that is correct in float32 is correct in every dtype. With
# quantized weights on a CPU, activations are rounded to 8 bits, which amplifies small differences.
HALF_PRECISION_TOLERANCE = {torch.float16: (0.02, 1.0), torch.bfloat16: (0.2, 1.0)}
FLOAT32_TOLERANCE = (1e-3, 1e-3)
QUANTIZED_TOLERANCE = (0.1, 1.0)
# cuBLAS sums in another order for other numbers of rows; the reference's prompts are too short to show it.
NOISE, NOISE_ON_GPU = 4, 8
MakeReference = Callable[[PreTrainedModel], Reference]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Prepared weights, and how to verify runners of them.

    reference    prompts, and the model's own logits for them with the prepared weights
    tolerance    largest accepted error of a runner, in standard deviations of the logits
    is_causal    no logit depends on later tokens
    quant_error  error caused by quantization; None if the weights are those of the files
    """

    reference: Reference
    tolerance: float
    is_causal: bool
    quant_error: QuantError | None


def prepare_weights(
    model: PreTrainedModel,
    quantization: Quantization,
    *,
    timed: bool,
    needs_packing: bool,
    make_reference: MakeReference = Reference,
) -> Prepared:
    """Change the model's weights in place to the fastest correct form.

    timed: weights that are not quantized may be packed on the CPU. needs_packing: pack them even if that is
    not faster, because a runner requires it. make_reference: gives the logits of the model as it was loaded.
    Raises Unavailable if the model does not run on text alone, its logits are not finite, or it cannot be
    quantized.
    """
    reference, quant_error = build_reference(model, make_reference), None
    choices = reference.choices
    if reference.std != reference.std:
        raise Unavailable(
            "the model's logits are NaN or infinite: its weight files are damaged, or DTYPE is too narrow"
        )
    file = mapped_file(model)
    if file:  # these weights were verified before they were written
        quant_error = QuantError(**file.about["quant_error"]) if file.about["quant_error"] else None
    elif quantization.scheme != NONE:
        reference, quant_error = quantize_weights(model, reference, quantization)
    elif packed_weights(model):
        reference = verify_packed_weights(model, reference)
    reference.choices = choices  # of the model, whichever logits it is now compared with
    dtype_tolerance = HALF_PRECISION_TOLERANCE.get(model.dtype, FLOAT32_TOLERANCE)
    on_gpu = model.device.type == "cuda"
    is_rounded = rounds_activations(model) or (quant_error and not on_gpu)
    bounds = QUANTIZED_TOLERANCE if is_rounded else dtype_tolerance
    tolerance = tolerance_of(reference, bounds)
    if on_gpu and not quant_error:
        merge_projections.merge_and_verify(model, reference, tolerance)
    elif timed and not quant_error and not file:
        use_packed_weights(model, reference, tolerance, required=needs_packing)
    return Prepared(reference, tolerance, reference.rounding_noise <= bounds[1], quant_error)


def tolerance_of(reference: Reference, bounds: tuple[float, float]) -> float:
    """The largest accepted error of a runner, within the bounds."""
    noise = NOISE_ON_GPU if reference.model.device.type == "cuda" else NOISE
    least, most = bounds
    return min(max(least, noise * reference.rounding_noise), most)


def build_reference(model: PreTrainedModel, make_reference: MakeReference) -> Reference:
    try:
        return make_reference(model)
    except (ServerError, torch.OutOfMemoryError):
        raise
    except Exception as raised:  # any model code; some models require images or audio
        message = named_error(raised, 400)
        raise Unavailable(
            f"{model.config.model_type} does not compute from text alone: {message}"
        ) from raised
