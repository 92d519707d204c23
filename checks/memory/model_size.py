"""The size of a model, measured on the model itself: it is built, loaded and run on the meta device.

If that is impossible (the model brings its own code, or needs values), files and config give an estimate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from checks.memory.activations import measure_activations
from checks.memory.kv_cost import (
    ANY_RUNNER,
    AUTO,
    RunnerChoice,
    count_pack_sample,
    explain_refusal,
    may_run_fused,
    measure_kv_cost,
)
from checks.memory.kv_formula import estimate_kv_cost
from checks.memory.quantized_size import has_quantized_weights, quantized_size
from checks.memory.tp_share import first_rank_share, splits_heads
from hub.tensors import most_common_dtype
from inference.errors import named_error
from inference.model.kv_cost import KVCost
from inference.model.load.checkpoint_quantization import QUANTIZATION_CONFIG, can_load_on_meta
from inference.model.load.meta_model import (
    MetaLoadResult,
    build_on_meta,
    count_parameters,
    load_on_meta,
    nbytes,
    weight_bytes_by_module,
)
from inference.model.placement.device_map import layer_stacks
from inference.model.quantization.schemes import bytes_saved


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Sizes are in bytes.

    num_parameters              count, not bytes
    dtype                       of the computation
    weights                     parameters and buffers
    buffers                     position tables, masks and so on
    kv_cost                     KV cache of a sequence
    layer_weights               of each layer, an encoder's before its decoder's; empty if unknown
    num_encoder_layers          the layers of an encoder, which have no KV cache
    quantization_savings        by value of QUANTIZE: how much smaller the weights become
    is_kv_measured              the runners measured the KV cost; otherwise it comes from a formula
    stored_dtype                most common dtype in the weight files; empty if their headers are unknown
    missing_weights             names of tensors that the files lack
    unused_weights              names of tensors of the files that no parameter takes
    mismatched_weights          (name, shape in the files, shape in the model) of tensors whose shapes differ
    load_copy_bytes             the part of `weights` that loading copies into private memory
    activation_bytes_per_token  peak of a step divided by its tokens
    largest_weight              the largest parameter
    is_fused                    the fused runner may be selected, if its logits are correct
    pack_sample                 weights that are packed additionally to time whether packing is faster
    vocab_size                  logits per token
    construct_error             why transformers cannot build the model; empty if it can
    runner_error                why the requested runner refuses the model; empty if it does not
    """

    num_parameters: int
    dtype: str
    weights: int
    kv_cost: KVCost
    layer_weights: tuple[int, ...] = ()
    num_encoder_layers: int = 0
    quantization_savings: Mapping[str, int] = field(default_factory=dict)
    buffers: int = 0
    is_kv_measured: bool = True
    stored_dtype: str = ""
    missing_weights: tuple[str, ...] = ()
    unused_weights: tuple[str, ...] = ()
    mismatched_weights: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = ()
    load_copy_bytes: int = 0
    activation_bytes_per_token: int = 0
    largest_weight: int = 0
    is_fused: bool = False
    pack_sample: int = 0
    vocab_size: int = 0
    construct_error: str = ""
    runner_error: str = ""

    @property
    def is_converted(self) -> bool:
        """Whether loading copies every parameter, because the files have another dtype."""
        return self.load_copy_bytes >= self.weights - self.buffers


def measure_model(
    raw_config: Mapping[str, Any],
    stored_bytes: int,
    choose_compute_dtype: Callable[[int], str],
    num_shard: int = 1,
    tensors: Mapping[str, Tensor] | None = None,
    runner_choice: RunnerChoice = ANY_RUNNER,
) -> ModelSize:
    """Measure the model of a config.json whose weights take `stored_bytes` in files.

    choose_compute_dtype: maps the number of parameters to a dtype. tensors: those of the files, on the meta
    device; None if unknown. With num_shard > 1 the bytes are those of the first rank.
    """
    try:
        model = build_on_meta(raw_config)
    except Exception as error:  # an architecture may raise anything, or be defined in the model's code
        return replace(
            estimate_from_files(raw_config, stored_bytes, choose_compute_dtype, tensors),
            construct_error=named_error(error),
        )
    num_parameters = count_parameters(model)
    dtype = choose_compute_dtype(num_parameters)
    load_result = try_load(model, dtype, raw_config, tensors)
    sized_model = load_result.model if load_result else model.to(getattr(torch, dtype))
    has_known_sizes = load_result is not None or not has_quantized_weights(raw_config)
    weights, buffers, layer_weights = count_weight_bytes(
        sized_model, None if has_known_sizes else quantized_size(sized_model, tensors, dtype, stored_bytes)
    )
    text_config, stacks_of_layers = sized_model.config.get_text_config(), layer_stacks(sized_model)
    is_fused = may_run_fused(sized_model, runner_choice.runner)
    model_size = ModelSize(
        num_parameters,
        dtype,
        weights,
        KVCost(),
        layer_weights,
        num_encoder_layers=len(stacks_of_layers[0]) if len(stacks_of_layers) > 1 else 0,
        quantization_savings=bytes_saved(model, itemsize(dtype), runner_choice.device),
        buffers=buffers,
        stored_dtype=most_common_dtype(tensors),
        load_copy_bytes=count_converted_bytes(weights - buffers, dtype, raw_config),
        activation_bytes_per_token=measure_activations(sized_model),
        largest_weight=max((weight.nbytes for weight in sized_model.parameters()), default=0),
        is_fused=is_fused,
        pack_sample=0 if is_fused else count_pack_sample(sized_model),
        vocab_size=int(getattr(text_config, "vocab_size", 0)),
    )
    if load_result and tensors:
        model_size = replace(
            model_size,
            missing_weights=load_result.missing_weights,
            mismatched_weights=load_result.mismatched_weights,
            load_copy_bytes=load_result.load_copy_bytes,
        )
    model_size = with_kv_cost(model_size, model, text_config, runner_choice)
    return size_per_rank(model_size, sized_model, num_shard, has_known_sizes)


def with_kv_cost(
    model_size: ModelSize, model: Any, text_config: Any, runner_choice: RunnerChoice
) -> ModelSize:
    """The size with the KV cache of a sequence. The model computes nothing else afterwards."""
    kv_cost = measure_kv_cost(model.to(getattr(torch, model_size.dtype)), runner_choice)
    is_limited = (runner_choice.runner, runner_choice.kv_dtype) != (AUTO, AUTO)
    return replace(
        model_size,
        kv_cost=kv_cost or estimate_kv_cost(text_config, itemsize(model_size.dtype)),
        is_kv_measured=kv_cost is not None,
        runner_error=explain_refusal(model, runner_choice) if kv_cost == KVCost() and is_limited else "",
    )


def estimate_from_files(
    raw_config: Mapping[str, Any],
    stored_bytes: int,
    choose_compute_dtype: Callable[[int], str],
    tensors: Mapping[str, Tensor] | None,
) -> ModelSize:
    """Estimate the size of a model that cannot be built here from its files' weights and its config."""
    file_dtype = stored_dtype(raw_config)
    num_parameters = (
        sum(tensor.numel() for tensor in tensors.values())
        if tensors
        else stored_bytes // itemsize(file_dtype)
    )
    dtype = choose_compute_dtype(num_parameters)
    text_config = raw_config.get("text_config")
    config = SimpleNamespace(**(text_config if isinstance(text_config, Mapping) else raw_config))
    weights = stored_bytes if has_quantized_weights(raw_config) else num_parameters * itemsize(dtype)
    load_copy_bytes = count_converted_bytes(weights, dtype, raw_config)
    return ModelSize(
        num_parameters,
        dtype,
        weights,
        estimate_kv_cost(config, itemsize(dtype)),
        is_kv_measured=False,
        stored_dtype=most_common_dtype(tensors),
        load_copy_bytes=load_copy_bytes,
    )


def try_load(
    model: Any, dtype: str, raw_config: Mapping[str, Any], tensors: Mapping[str, Tensor] | None
) -> MetaLoadResult | None:
    """The model as it will be loaded, on the meta device; None if loading depends on values."""
    if QUANTIZATION_CONFIG in raw_config and (
        tensors is None or not can_load_on_meta(raw_config[QUANTIZATION_CONFIG])
    ):
        return None
    return load_on_meta(model, dtype, tensors)


def count_weight_bytes(model: Any, stored_bytes: int | None) -> tuple[int, int, tuple[int, ...]]:
    """Bytes of the model, of its buffers and of each layer.

    stored_bytes: the total, for quantized weights whose shapes do not give it; else None.
    """
    buffers, weights = nbytes(model.buffers()), nbytes(model.parameters())
    layer_weights = tuple(weight_bytes_by_module(model, chain.from_iterable(layer_stacks(model))))
    if stored_bytes is None:
        return weights + buffers, buffers, layer_weights
    return stored_bytes, buffers, tuple(stored_bytes * layer // max(1, weights) for layer in layer_weights)


def size_per_rank(model_size: ModelSize, model: Any, num_shard: int, has_known_sizes: bool) -> ModelSize:
    """The size of one rank's part. has_known_sizes: `buffers` is exact; every rank has all buffers."""
    if num_shard == 1:
        return model_size
    rank_fraction = first_rank_share(model, num_shard)
    num_head_groups = num_shard if splits_heads(model.tp_plan) else 1
    replicated_bytes = model_size.buffers if has_known_sizes else 0
    return replace(
        model_size,
        weights=round((model_size.weights - replicated_bytes) * rank_fraction) + replicated_bytes,
        kv_cost=model_size.kv_cost.divided_by(num_head_groups),
        layer_weights=tuple(int(layer * rank_fraction) for layer in model_size.layer_weights),
        load_copy_bytes=int(model_size.load_copy_bytes * rank_fraction),
    )


def stored_dtype(raw_config: Mapping[str, Any]) -> str:
    """The dtype of the weights according to config.json."""
    return str(raw_config.get("dtype") or raw_config.get("torch_dtype") or "float32")


def count_converted_bytes(weights: int, dtype: str, raw_config: Mapping[str, Any]) -> int:
    """`weights` if loading converts them, because config.json has another dtype than `dtype`; else 0."""
    return 0 if dtype == stored_dtype(raw_config) else weights


def itemsize(dtype: str) -> int:
    return int(getattr(torch, dtype).itemsize)
