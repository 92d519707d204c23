"""Pairs on parameters that are no linear layer's weight, as peft's target_parameters: experts' and routers'.

peft wraps a module once for each of its parameters that has a pair, the first one innermost; the names of the
tensors tell how deep a wrapper is, and not its parameter.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from inference.lora.config import AdapterConfig, refusal
from inference.lora.files import Shape
from inference.lora.keys import PAIR, RoleKeys, TensorRole
from inference.model.lora.adapted_experts import has_stacked_experts
from inference.model.lora.replaced_module import is_router
from inference.model.quantization.find_weights import is_transposed_in

WRAPPER = ".base_layer"  # between the name of a module and that of an inner wrapper's tensor


@dataclass(frozen=True, slots=True, eq=False)
class ParameterPair:
    """A pair on a parameter (out, in), or on each expert's part of a parameter (experts, …).

    shapes  of lora_A, (experts · rank, in), and of lora_B, (out, rank · experts)
    """

    module: str
    parameter: str
    keys: RoleKeys
    rank: int
    shapes: Mapping[TensorRole, Shape]

    @property
    def name(self) -> str:
        """The parameter's name in the model; patterns of names match it."""
        return f"{self.module}.{self.parameter}"


def find_parameter_pairs(
    model: Any, modules: Mapping[str, RoleKeys], config: AdapterConfig
) -> dict[str, list[ParameterPair]]:
    """The pairs on parameters, by the names of their modules. Raises BadRequest for those not served."""
    wrappers: dict[str, dict[int, RoleKeys]] = {}
    for name, keys in modules.items():
        module = name.replace(WRAPPER, "")
        if PAIR & keys.keys() and config.target_parameters and targeted_parameters(model, module, config):
            wrappers.setdefault(module, {})[name.count(WRAPPER)] = keys
    return {module: list(pairs_of(model, module, config, by_depth)) for module, by_depth in wrappers.items()}


def targeted_parameters(model: Any, module: str, config: AdapterConfig) -> Sequence[str]:
    """The module's own parameters that target_parameters names, as peft finds them."""
    try:
        parameters = [name for name, _ in model.get_submodule(module).named_parameters(recurse=False)]
    except AttributeError:
        return ()
    return [name for name in parameters if config.targets_parameter(f"{module}.{name}")]


def pairs_of(
    model: Any, module: str, config: AdapterConfig, by_depth: Mapping[int, RoleKeys]
) -> Iterator[ParameterPair]:
    parameters = targeted_parameters(model, module, config)
    if sorted(by_depth) != list(range(len(parameters))):
        names = f"target_parameters names {len(parameters)}"
        raise refusal(f"has pairs for {len(by_depth)} parameters of {module}, and {names}")
    for parameter, depth in zip(parameters, sorted(by_depth, reverse=True), strict=True):
        keys = by_depth[depth]
        if keys.keys() != PAIR:
            raise refusal(
                f"has {', '.join(sorted(keys.values()))}, and a parameter has lora_A and lora_B alone"
            )
        yield parameter_pair(model.get_submodule(module), module, parameter, keys, config)


def parameter_pair(
    owner: nn.Module, module: str, parameter: str, keys: RoleKeys, config: AdapterConfig
) -> ParameterPair:
    values: Tensor = getattr(owner, parameter)
    name = f"{module}.{parameter}"
    if not is_served(owner, parameter, values.dim()):
        raise refusal(
            f"changes {name} of a {type(owner).__name__}, which is not served: merge it into the model"
        )
    rank, (outputs, inputs) = config.rank_of(name), values.shape[-2:]
    if is_transposed_in(owner):
        inputs, outputs = outputs, inputs
    num_ranks = rank * (len(values) if values.dim() == 3 else 1)
    shapes = {TensorRole.LORA_A: (num_ranks, inputs), TensorRole.LORA_B: (outputs, num_ranks)}
    return ParameterPair(module, parameter, keys, rank, shapes)


def is_served(owner: nn.Module, parameter: str, num_dims: int) -> bool:
    """Whether the parameter is a router's weight or a stack of experts'."""
    is_weight_of_router = num_dims == 2 and parameter == "weight" and is_router(owner)
    return is_weight_of_router or (num_dims == 3 and has_stacked_experts(owner))
