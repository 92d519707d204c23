"""Builds the weights of a checked adapter: reads the values and makes the delta of each module.

The weights have the dtypes and devices of the model's modules. Each rank builds its part of them.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from inference.lora.check import EMBEDDING, LINEAR, CheckedAdapter
from inference.lora.config import AdapterConfig, refusal
from inference.lora.files import TensorFile
from inference.lora.keys import RoleKeys, TensorRole
from inference.lora.target_parameters import ParameterPair
from inference.model.lora.adapted_experts import ExpertStack
from inference.model.lora.base_weight import base_weight
from inference.model.lora.delta import AffineDelta, DeltaChain, ModuleDelta
from inference.model.lora.replaced_module import ReplacedModule
from inference.model.lora.shard import (
    create_lora_delta,
    create_replaced_module,
    expert_pair_part,
    experts_type,
    is_base_weight,
    output_bias,
    output_part,
    parameter_part,
    row_norms,
)
from inference.model.lora.token_deltas import EmbeddingDelta, TokenEmbeddings, TokenLogits
from inference.model.lora.weights import AdapterWeights, ModuleChange
from inference.model.parallel_layers import local_values
from inference.model.quantization.find_weights import is_transposed_in

R = TensorRole
# A module may keep float32 in a model of another dtype, as some of T5 do.
COMPUTE_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# Read between two steps of the model. In bytes, not seconds: all ranks must yield at the same tensors.
PIECE_BYTES = 4_000_000
# Tensors that change nothing without the others: an A without its B, and a magnitude that is the base's.
NO_EFFECT = frozenset((R.LORA_A, R.EMBEDDING_A, R.BASE_WEIGHT, R.MAGNITUDE))


class NamedModule(NamedTuple):
    """A module that an adapter changes, its tensors (float32, by role) and the scale of its pair."""

    model: Any
    name: str
    module: Any
    tensors: dict[TensorRole, Tensor]
    scale: float

    def place(self, values: Tensor) -> Tensor:
        """The values on the module's device, in its dtype; in the model's if the module is quantized."""
        weight = self.module.weight
        return values.to(weight.device, weight.dtype if weight.dtype in COMPUTE_DTYPES else self.model.dtype)


def build_weights(
    model: Any, checked: CheckedAdapter, number: int, piece_bytes: int = PIECE_BYTES
) -> Generator[None, None, AdapterWeights]:
    """Read the values, and yield after each piece_bytes. Raises BadRequest for values that are not finite."""
    file, has_effect, num_bytes = TensorFile(checked.folder), False, 0
    deltas: dict[str, ModuleChange] = {}
    for name, keys in checked.modules.items():
        tensors = {role: file.read(key) for role, key in keys.items()}
        has_effect |= any(bool(values.any()) for role, values in tensors.items() if role not in NO_EFFECT)
        named = NamedModule(model, name, model.get_submodule(name), tensors, checked.config.scale_of(name))
        check_base_weight(named)
        if R.TOKEN_ROWS in tensors:
            deltas |= token_deltas(named, torch.tensor(checked.config.token_ids_of(name)))
        else:
            deltas[name] = builder_of(keys)(named)
        num_bytes += sum(values.nbytes for values in tensors.values())
        if num_bytes > piece_bytes:
            num_bytes = 0
            yield
    for name, pairs in checked.parameters.items():
        tensors_of = {pair: {role: file.read(key) for role, key in pair.keys.items()} for pair in pairs}
        has_effect |= any(bool(tensors[R.LORA_B].any()) for tensors in tensors_of.values())
        deltas[name] = changed_parameters(model, name, tensors_of, checked.config)
        yield
    return AdapterWeights(number, deltas, has_effect)


def changed_parameters(
    model: Any,
    name: str,
    tensors_of: Mapping[ParameterPair, Mapping[TensorRole, Tensor]],
    config: AdapterConfig,
) -> ReplacedModule:
    """A router with another weight, or experts whose weights have pairs."""
    stacks, module = {}, model.get_submodule(name)
    for pair, tensors in tensors_of.items():
        weights = getattr(module, pair.parameter)
        a, b = tensors[R.LORA_A], tensors[R.LORA_B] * config.scale_of(pair.name)
        if weights.dim() == 2:
            changed = base_weight(module).float() + (b @ a).to(weights.device)
            return ReplacedModule(module, {pair.parameter: changed.to(weights.dtype)})
        a = a.unflatten(0, (len(weights), pair.rank))
        b = b.unflatten(1, (pair.rank, len(weights))).permute(2, 0, 1)
        a, b = expert_pair_part(model, pair.name, a, b, is_transposed=bool(is_transposed_in(module)))
        weights = local_values(weights)
        stacks[pair.parameter] = ExpertStack(weights, *(each.to(weights).contiguous() for each in (a, b)))
    return experts_type(model, name)(module, stacks)


def builder_of(keys: RoleKeys) -> Callable[[NamedModule], ModuleChange]:
    if LINEAR[0] <= keys.keys():
        return linear_delta
    return embedding_delta if EMBEDDING[0] <= keys.keys() else replaced_delta


def linear_delta(named: NamedModule) -> ModuleDelta:
    """A low-rank pair, with a bias in the base's place and the factor of DoRA before it."""
    tensors, deltas = named.tensors, []
    a, b = tensors[R.LORA_A], tensors[R.LORA_B] * named.scale
    bias = tensors.get(R.BIAS, tensors.get(R.BASE_BIAS))
    if bias is not None:
        deltas.append(bias_delta(named, bias))
    if R.MAGNITUDE in tensors:
        factor = tensors[R.MAGNITUDE] / row_norms(named.model, named.name, a, b)
        b = factor[:, None] * b
        factor = output_part(named.model, named.name, factor)
        served_bias = (
            output_bias(named.model, named.name)
            if bias is None
            else output_part(named.model, named.name, bias)
        )
        shift = None if served_bias is None else named.place((1 - factor) * served_bias)
        deltas.append(AffineDelta(named.place(factor), shift))
    lora_bias = named.place(tensors[R.LORA_BIAS] * named.scale) if R.LORA_BIAS in tensors else None
    pair = create_lora_delta(named.model, named.name, named.place(a), named.place(b), lora_bias)
    return DeltaChain([*deltas, pair]) if deltas else pair


def bias_delta(named: NamedModule, bias: Tensor) -> ModuleDelta:
    """A bias in the place of the linear layer's own."""
    own_bias = output_bias(named.model, named.name)
    assert own_bias is not None, "check_keys has compared its shape"
    return AffineDelta(None, named.place(output_part(named.model, named.name, bias) - own_bias))


def embedding_delta(named: NamedModule) -> ModuleDelta:
    b = named.tensors[R.EMBEDDING_B] * (named.scale * embed_scale(named.module))
    return EmbeddingDelta(named.place(named.tensors[R.EMBEDDING_A]), named.place(b))


def replaced_delta(named: NamedModule) -> ModuleChange:
    tensors = named.tensors
    if R.WEIGHT not in tensors and isinstance(named.module, nn.Linear):
        return bias_delta(named, tensors[R.BIAS])
    names = {R.WEIGHT: "weight", R.BIAS: "bias"}
    parameters = {
        names[role]: named.place(parameter_part(named.model, named.name, values))
        for role, values in tensors.items()
    }
    return create_replaced_module(named.model, named.name, parameters)


def token_deltas(named: NamedModule, token_ids: Tensor) -> dict[str, ModuleDelta]:
    """The tokens' own embeddings; they are their rows in a tied output layer too."""
    rows = named.tensors[R.TOKEN_ROWS]
    token_ids = token_ids.to(named.module.weight.device)
    scaled_rows = named.place(rows * embed_scale(named.module))
    deltas: dict[str, ModuleDelta] = {named.name: TokenEmbeddings(token_ids, scaled_rows)}
    model = named.model
    head = model.get_output_embeddings()
    is_tied = getattr(model.config.get_text_config(), "tie_word_embeddings", False)
    if head is not None and is_tied and named.module is model.get_input_embeddings():
        head_name = next(name for name, module in model.named_modules() if module is head)
        deltas[head_name] = TokenLogits(token_ids, named.place(rows))
    return deltas


def embed_scale(module: nn.Module) -> float:
    """The factor that the embedding layer itself applies, as in Gemma 3."""
    return float(getattr(module, "embed_scale", 1.0))


def check_base_weight(named: NamedModule) -> None:
    """Raise BadRequest if the adapter holds another weight of the base than the model's."""
    copy = named.tensors.get(R.BASE_WEIGHT)
    if copy is None:
        return
    if not is_base_weight(named.model, named.name, copy):
        raise refusal(
            f"has a base weight for {named.name} that is not the model's: it was trained on another model"
        )
