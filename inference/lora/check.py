"""Checks an adapter by its config and header alone: every tensor's module, role and shape."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

from torch import nn

from inference.lora.config import AdapterConfig, read_config, refusal
from inference.lora.files import Shape, check_files, read_shapes
from inference.lora.keys import RoleKeys, TensorRole, group_keys
from inference.lora.target_parameters import WRAPPER, ParameterPair, find_parameter_pairs
from inference.model.lora.replaced_module import can_replace

R = TensorRole
# The sets of roles that a module's tensors may have: the first must all be there, the second may.
LINEAR = {R.LORA_A, R.LORA_B}, {R.LORA_BIAS, R.MAGNITUDE, R.BASE_WEIGHT, R.BASE_BIAS, R.BIAS}
EMBEDDING = {R.EMBEDDING_A, R.EMBEDDING_B}, {R.BASE_WEIGHT}
TOKENS = {R.TOKEN_ROWS}, {R.BASE_WEIGHT}
REPLACED: tuple[set[TensorRole], set[TensorRole]] = set(), {R.WEIGHT, R.BIAS}
OWN_PARAMETERS = {
    **dict.fromkeys((R.WEIGHT, R.BASE_WEIGHT), "weight"),
    **dict.fromkeys((R.BIAS, R.BASE_BIAS), "bias"),
}
ROLE_SETS = (LINEAR, EMBEDDING, TOKENS, REPLACED)


@dataclass(frozen=True, slots=True)
class CheckedAdapter:
    """An adapter whose config and header fit the model; its values are not read yet.

    modules     the tensors of each module, by its name
    parameters  the pairs on parameters of other modules, by the modules' names
    rank        the largest of its modules
    num_values  numbers that its weights have in memory, in the dtypes of the modules
    """

    folder: Path
    config: AdapterConfig
    modules: Mapping[str, RoleKeys]
    parameters: Mapping[str, Sequence[ParameterPair]]
    rank: int
    num_values: int


def check_adapter(model: Any, folder: Path, max_rank: int) -> CheckedAdapter:
    """Check the files without reading a value. Raises BadRequest with the key, and both shapes."""
    check_files(folder)
    return check_shapes(model, folder, read_shapes(folder), max_rank)


def check_shapes(model: Any, folder: Path, shapes: Mapping[str, Shape], max_rank: int) -> CheckedAdapter:
    """As check_adapter, for a folder of which the config alone need be there. `model` may be on meta."""
    config, modules = read_config(folder, max_rank), group_keys(shapes)
    parameters = find_parameter_pairs(model, modules, config)
    modules = {name: keys for name, keys in modules.items() if name.replace(WRAPPER, "") not in parameters}
    rank = num_values = 0
    for name, keys in modules.items():
        check_roles(name, keys)
        check_magnitude(name, keys, config)
        module, own_rank = find_module(model, name), config.rank_of(name)
        num_values += check_keys(keys, shapes, expected_shapes(module, name, keys, config, own_rank))
        rank = max(rank, own_rank if LINEAR[0] <= keys.keys() else 0)
    for pair in chain.from_iterable(parameters.values()):
        num_values += check_keys(pair.keys, shapes, pair.shapes)
        rank = max(rank, pair.rank)
    return CheckedAdapter(folder, config, modules, parameters, rank, num_values)


def check_keys(keys: RoleKeys, shapes: Mapping[str, Shape], expected: Mapping[TensorRole, Shape]) -> int:
    """The numbers that the tensors have in memory. Raises BadRequest for one of another shape."""
    for role, key in keys.items():
        if role not in expected:
            raise refusal(f"has {key}, and this model has no such parameter")
        if shapes[key] != expected[role]:
            shape, needed = list(shapes[key]), list(expected[role])
            raise refusal(f"has {key} of shape {shape}: this model and r need {needed}")
    return sum(prod(shapes[key]) for role, key in keys.items() if role is not R.BASE_WEIGHT)


def check_roles(name: str, keys: RoleKeys) -> None:
    """Raise BadRequest for tensors that belong together and do not come together."""
    if any(required <= keys.keys() <= required | optional for required, optional in ROLE_SETS):
        return
    required = next((each for each, _ in ROLE_SETS if each & keys.keys()), set())
    missing = next((role for role in R if role in required - keys.keys()), None)
    if missing:
        raise refusal(f"has {min(keys.values())}, but no {name}{missing.value}")
    raise refusal(f"has {', '.join(sorted(keys.values()))}, which are not served together")


def check_magnitude(name: str, keys: RoleKeys, config: AdapterConfig) -> None:
    """Raise BadRequest for a pair of DoRA without its magnitudes, and for magnitudes without DoRA."""
    if LINEAR[0] <= keys.keys() and (R.MAGNITUDE in keys) != config.use_dora:
        has = "no" if config.use_dora else "a"
        raise refusal(f"has use_dora = {str(config.use_dora).lower()}, but {has} {name}{R.MAGNITUDE.value}")


def find_module(model: Any, name: str) -> nn.Module:
    try:
        module: nn.Module = model.get_submodule(name)
    except AttributeError:
        raise refusal(f"changes {name}, which this model does not have: it is of another model") from None
    return module


def expected_shapes(
    module: nn.Module, name: str, keys: RoleKeys, config: AdapterConfig, rank: int
) -> Mapping[TensorRole, Shape]:
    """The shapes of the tensors that the module may have. Raises BadRequest for one that is not served."""
    own = {
        role: whole_shape(module, parameter_name)
        for role, parameter_name in OWN_PARAMETERS.items()
        if getattr(module, parameter_name, None) is not None
    }
    if LINEAR[0] <= keys.keys():
        inputs, outputs = linear_shape(module, name)
        per_output = dict.fromkeys((R.LORA_BIAS, R.MAGNITUDE), (outputs,))
        return own | per_output | {R.LORA_A: (rank, inputs), R.LORA_B: (outputs, rank)}
    if R.WEIGHT in keys or R.BIAS in keys:
        check_replaceable(module, name)
        return own
    if not isinstance(module, nn.Embedding):
        raise refusal(f"has embeddings for {name}, a {type(module).__name__}")
    count, width = module.num_embeddings, module.embedding_dim
    token_ids = config.token_ids_of(name) if R.TOKEN_ROWS in keys else ()
    if not all(0 <= id < count for id in token_ids):
        raise refusal(f"has trainable_token_indices beyond the {count} tokens of {name}")
    pair = {R.EMBEDDING_A: (rank, count), R.EMBEDDING_B: (width, rank)}
    return own | pair | {R.TOKEN_ROWS: (len(token_ids), width)}


def whole_shape(module: nn.Module, parameter_name: str) -> Shape:
    """The shape of a parameter, of which this rank may have a part."""
    if isinstance(module, nn.Linear):
        shape = module.out_features, module.in_features
        return shape if parameter_name == "weight" else shape[:1]
    if isinstance(module, nn.Embedding):
        return module.num_embeddings, module.embedding_dim
    return tuple(getattr(module, parameter_name).shape)


def linear_shape(module: nn.Module, name: str) -> Shape:
    """(inputs, outputs) of a linear layer. Raises BadRequest for another module."""
    for inputs, outputs in (("in_features", "out_features"), ("nx", "nf")):
        if hasattr(module, inputs) and hasattr(module, outputs):
            return getattr(module, inputs), getattr(module, outputs)
    raise refusal(f"changes {name}, a {type(module).__name__}, which is not served")


def check_replaceable(module: nn.Module, name: str) -> None:
    if not can_replace(module):
        raise refusal(f"replaces parameters of {name}, a {type(module).__name__}, which is not served")
