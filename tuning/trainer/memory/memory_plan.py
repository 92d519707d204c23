"""The memory that a training job takes, predicted from a model's config before the job starts.

Frozen weights, trained weights with their moments, what autograd keeps of a micro-batch with its logits, and
the programs. Knows the trainer's way to compute; needs neither weights nor the engine.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from checks.memory.activations import count_experts
from inference.finding import Finding, format_each, format_size
from inference.model.load.device_dtype import resolve_device
from inference.model.load.meta_model import build_on_meta, count_parameters, nbytes
from inference.model.quantization.find_weights import find_weights
from inference.model.quantization.schemes import NONE, weight_bytes_saved
from inference.native.library import available
from inference.native.packed_matrix import NATIVE_DTYPES
from inference.process.imports.deferred_torch import load_meta_kernels
from tuning.data.examples import Dataset
from tuning.trainer.losses.target_logprobs import tokens_per_block
from tuning.trainer.memory.mapped_weights import MappedWeights, read_mapped_weights
from tuning.trainer.memory.saved_activations import saved_bytes
from tuning.trainer.micro_batches import MAX_PASS_TOKENS
from tuning.trainer.model.base_model import qlora_scheme, training_dtype
from tuning.trainer.model.lora import PeftAdapters, lora_options, read_config
from tuning.trainer.written_text import longest_text
from tuning.types import JobSpec

# In RAM: torch, transformers, peft, this code, a tokenizer. In VRAM: CUDA's context, buffers of libraries.
PROGRAM_BYTES = {"cpu": 380_000_000, "cuda": 700_000_000}
FLOAT_BYTES = 4
TRAINED_FACTOR = 3  # a trained weight and its two moments
NUM_MOMENTS = {"adamw": 2, "adam": 2}  # others keep none
PROBE_TOKENS = (64, 128)  # activations are measured with these numbers of tokens, and are linear in them


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Bytes of a training process at its peak.

    weights        the model's weights
    adapter        the adapter in training and the optimizer's moments
    optimizer      of full fine-tuning: the moments, and float32 masters of weights that have another dtype
    num_processes  that need as much each; all but the first have no moments
    step           a micro-batch: what autograd keeps, and logits with their gradients; or all gradients
    programs       libraries, code and tokenizer
    loading        what loading needs beyond weights and programs; it is over when the training begins
    """

    weights: int
    adapter: int
    step: int
    programs: int
    loading: int
    optimizer: int = 0
    num_processes: int = 1

    @property
    def terms(self) -> dict[str, int]:
        """The terms of the peak, by name."""
        peak = {"weights": self.weights, "programs": self.programs}
        training = {"adapter": self.adapter, "optimizer": self.optimizer, "step": self.step}
        training = {name: size for name, size in training.items() if size}
        return peak | (training if sum(training.values()) >= self.loading else {"loading": self.loading})

    @property
    def total(self) -> int:
        return sum(self.terms.values())


def largest_pass(dataset: Dataset, spec: JobSpec) -> int:
    """The most tokens that a micro-batch of the job may have in one of its processes, padding included."""
    group_size, hyperparameters = 2 if dataset.pairs else 1, spec.hyperparameters
    longest = max(len(example.token_ids) for example in dataset.sequences()) - 1
    share = math.ceil(hyperparameters.rows_per_step / spec.num_processes)
    num_rows = min(len(dataset), hyperparameters.batch_size, share) * group_size
    if hyperparameters.rehearsal:
        longest = max(longest, longest_text(longest + 1))
        num_rows = hyperparameters.batch_size * group_size  # a step's texts may be more than all rows
    return max(longest * group_size, min(longest * num_rows, MAX_PASS_TOKENS))


def plan_memory(raw_config: Mapping[str, Any], spec: JobSpec, num_tokens: int) -> TrainingPlan:
    """Plan a job on the model of a config.json, in micro-batches of num_tokens tokens.

    Raises BadRequest for an adapter that the model cannot have, and whatever the architecture raises.
    """
    load_meta_kernels()  # adapters are made of operators that need them
    model = build_on_meta(raw_config)
    device = resolve_device(spec.device)
    dtype = training_dtype(spec.dtype, device, count_parameters(model))
    model.to(getattr(torch, dtype))
    if spec.hyperparameters.is_full:
        return plan_full(model, spec, num_tokens, device)
    scheme = qlora_scheme(spec.hyperparameters.quantize_base, device)
    mapped = read_mapped_weights(spec.weight_file)
    full_weights = nbytes(model.parameters())
    if computes_in_float32(device, scheme, mapped):
        model.to(torch.float32)
    if mapped:
        frozen_weights = mapped.own_bytes(model.dtype.itemsize, is_shared=spec.shares_weights)
    else:
        frozen_weights = weight_bytes(model, scheme, device)
    trained = insert_adapter(model, spec)
    adapter_bytes = trained * FLOAT_BYTES
    activations = activation_bytes(model, spec, num_tokens)
    return TrainingPlan(
        weights=frozen_weights,
        adapter=TRAINED_FACTOR * adapter_bytes,
        step=max(activations + logits_bytes(model, num_tokens, device), adapter_bytes),
        programs=PROGRAM_BYTES[device],
        # On a GPU, weights are packed one by one as they arrive. Mapped ones are packed.
        loading=full_weights - frozen_weights if device == "cpu" and not mapped else 0,
        num_processes=spec.num_processes,
    )


def plan_full(model: Any, spec: JobSpec, num_tokens: int, device: str) -> TrainingPlan:
    """Plan the training of all weights of a model on the meta device."""
    model.requires_grad_(True)
    weights, num_weights = nbytes(model.parameters()), count_parameters(model)
    masters = 0 if model.dtype == torch.float32 else FLOAT_BYTES * num_weights
    moments = NUM_MOMENTS.get(spec.hyperparameters.optimizer, 0) * FLOAT_BYTES * num_weights
    return TrainingPlan(
        weights=weights,
        adapter=0,
        optimizer=masters + moments,
        step=full_step_bytes(model, spec, num_tokens, device),
        programs=PROGRAM_BYTES[device],
        loading=0,
        num_processes=spec.num_processes,
    )


def full_step_bytes(model: Any, spec: JobSpec, num_tokens: int, device: str) -> int:
    """Gradients of all weights, beside what is kept for the backward pass that comes before them.

    In the only pass of a step, gradients come as activations go: first that of the output layer, beside all
    activations, at last all of them beside the first layer's.
    """
    gradients = FLOAT_BYTES * count_parameters(model)
    of_head = FLOAT_BYTES * model.get_output_embeddings().weight.numel()
    pass_bytes = activation_bytes(model, spec, num_tokens) + logits_bytes(model, num_tokens, device)
    has_more_passes = spec.hyperparameters.gradient_accumulation_steps > 1 or num_tokens >= MAX_PASS_TOKENS
    if has_more_passes:
        return pass_bytes + gradients
    return max(pass_bytes + of_head, gradients + of_head + layer_bytes(model, num_tokens))


def computes_in_float32(device: str, scheme: str, mapped: MappedWeights | None) -> bool:
    """Whether a base has float32 between its layers, see prepare_frozen."""
    return mapped.rounds_activations if mapped else device == "cpu" and scheme != NONE


def weight_bytes(model: Any, scheme: str, device: str) -> int:
    """Bytes of the frozen weights as the trainer has them, packed by a scheme."""
    full, itemsize = nbytes(model.parameters()), model.dtype.itemsize
    if scheme == NONE:
        return full
    weights = list(find_weights(model, "meta"))
    return full - sum(weight_bytes_saved(weights, scheme, itemsize, device).values())


def insert_adapter(model: Any, spec: JobSpec) -> int:
    """Insert the job's adapter; returns the number of trained parameters."""
    model.requires_grad_(False)
    initial = spec.initial_adapter
    adapters = PeftAdapters(model)
    config = read_config(Path(initial)) if initial else adapters.new_config(lora_options(spec))
    with torch.device("meta"):
        adapters.add("planned", config, seed=0)
    adapters.activate("planned")
    return sum(weight.numel() for weight in adapters.parameters("planned").values())


def activation_bytes(model: Any, spec: JobSpec, num_tokens: int) -> int:
    """Bytes that the layers keep for the backward pass of a micro-batch."""
    if not spec.hyperparameters.activation_checkpointing:
        return all_layer_bytes(model, num_tokens)
    text_config = model.config.get_text_config()
    num_values = text_config.num_hidden_layers * num_tokens * text_config.hidden_size  # of the layers' inputs
    return num_values * model.dtype.itemsize + layer_bytes(model, num_tokens)


def layer_bytes(model: Any, num_tokens: int) -> int:
    """Bytes that one layer keeps of a micro-batch."""
    return all_layer_bytes(model, num_tokens) // int(model.config.get_text_config().num_hidden_layers)


def all_layer_bytes(model: Any, num_tokens: int) -> int:
    """Bytes that all layers keep of a micro-batch; those of PROBE_TOKENS are measured."""
    few, more = (probe_activations(model, count) for count in PROBE_TOKENS)
    return few + (more - few) * (num_tokens - PROBE_TOKENS[0]) // (PROBE_TOKENS[1] - PROBE_TOKENS[0])


def probe_activations(model: Any, num_tokens: int) -> int:
    """As saved_bytes. On the meta device, torch multiplies the tokens of experts in bfloat16 only."""
    itemsize = model.dtype.itemsize
    if not count_experts(model.config.get_text_config()):
        return saved_bytes(model, num_tokens)
    return saved_bytes(model.to(torch.bfloat16), num_tokens) * itemsize // torch.bfloat16.itemsize


def logits_bytes(model: Any, num_tokens: int, device: str) -> int:
    """Bytes of the logits that are computed at once, and of the gradients of all hidden states.

    In the native library, logits have their gradients beside them, in the same dtype. In torch, logits are in
    float32 beside their probabilities, and before that in the model's dtype.
    """
    config, itemsize = model.config.get_text_config(), model.dtype.itemsize
    of_a_logit = 2 * FLOAT_BYTES + (itemsize if itemsize < FLOAT_BYTES else 0)
    if device == "cpu" and model.dtype in NATIVE_DTYPES and available():
        of_a_logit = 2 * itemsize
    num_logits = config.vocab_size * min(num_tokens, tokens_per_block(config.vocab_size, device))
    return of_a_logit * num_logits + num_tokens * config.hidden_size * itemsize


def check_memory(plan: TrainingPlan, free_bytes: int, fix: str = "") -> Finding:
    """Whether the job fits into the memory that serving leaves. fix: from `nearest_that_fits`."""
    terms = ", ".join(f"{name} {format_size(size)}" for name, size in plan.terms.items())
    need = f"{format_each(plan.total, plan.num_processes)} ({terms})"
    have = f"{format_each(free_bytes, plan.num_processes)} free"
    return Finding("training memory", need, have, plan.total <= free_bytes, fix)
