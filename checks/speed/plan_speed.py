"""The speed of a planned model: measures its device, and says why where the speed cannot be estimated."""

from dataclasses import replace
from typing import Any

import torch

from checks.machine import Machine
from checks.memory import try_build_on_meta
from checks.memory.plan import Plan
from checks.memory.planned_size import quantization_config
from checks.speed.cpu_rates import measure_cpu, sample_bytes
from checks.speed.estimate import Speed, UnknownSpeed, estimate
from checks.speed.gpu_rates import measure_gpu
from checks.speed.shape import decoder_shape, skipped_products
from checks.speed.startup import measure_sample, startup_s
from checks.speed.work import token_matrices, token_work
from inference.errors import named_error
from inference.model.load.checkpoint_quantization import stays_quantized
from inference.model.paged.kv_pool import INT8
from inference.native.build import NativeUnavailable

SPARE = 2  # times the memory of the measurement that must be free


def estimate_speed(plan: Plan, machine: Machine) -> Speed:
    """Estimate the speed of one answer of a model that fits. Takes about half a second of all cores."""
    if reason := why_unknown(plan, machine):
        return UnknownSpeed(reason)
    model = try_build_on_meta(plan.repository.config)
    if model is None:
        return UnknownSpeed("the model is defined in its own code")
    if model.config.is_encoder_decoder:
        return UnknownSpeed("the model has an encoder")
    try:
        return measure_and_estimate(plan, model)
    except NativeUnavailable as reason:
        return UnknownSpeed(f"no native library to measure with: {reason}")
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:  # of torch, in many ways
        return UnknownSpeed(f"the measurement failed: {named_error(error)}")


def why_unknown(plan: Plan, machine: Machine) -> str:
    """Why the speed of the plan cannot be estimated; empty if it can."""
    if plan.num_shard > 1:
        return "several processes share the model"
    if plan.layer_devices:
        return "the layers are on several devices"
    quantization = quantization_config(plan.repository, plan.request)
    if quantization and stays_quantized(quantization):
        return "the weights stay in the format of their files"
    if plan.device == "cpu" and machine.ram < SPARE * sample_bytes():
        return "too little memory is free to measure the processor"
    return ""


def measure_and_estimate(plan: Plan, model: Any) -> Speed:
    """Raises NativeUnavailable."""
    assert plan.model_size is not None
    matrices, dtype = token_matrices(plan, model), getattr(torch, plan.model_size.dtype)
    work = token_work(matrices, plan.device)
    if plan.device != "cpu":
        return estimate(work, measure_gpu(dtype))
    has_int8_kv = plan.request.kv_dtype == INT8
    shape = decoder_shape(model.config.get_text_config(), matrices, dtype, has_int8_kv)
    sample_s = measure_sample()
    rates = measure_cpu(shape, plan.max_batch_tokens, torch.get_num_threads())
    sample_s = min(sample_s, measure_sample())  # another program may slow one of them
    if not plan.model_size.is_fused:
        return estimate(work, replace(rates, is_limit=True))
    speed = estimate(replace(work, products=work.products - skipped_products(shape)), rates)
    start_s = startup_s(len(shape.layers), shape.vocab, 1 / speed.tokens_per_s, sample_s)
    return replace(speed, startup_s=start_s)
