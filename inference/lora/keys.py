"""The names of an adapter's tensors, as peft 0.21 writes them: which module, and which role in the change.

Knows names only. Every tensor must have a meaning here: an unknown name is refused, never left out.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from inference.lora.config import refusal

PREFIX = "base_model.model."


class TensorRole(Enum):
    """A tensor of a module's change, by the end of its name."""

    LORA_A = ".lora_A.weight"
    LORA_B = ".lora_B.weight"


RoleKeys = dict[TensorRole, str]  # the tensor's name in the file


def group_keys(keys: Iterable[str]) -> Mapping[str, RoleKeys]:
    """The tensors of each module, by the module's name. Raises BadRequest for an unknown name of a tensor."""
    modules: dict[str, RoleKeys] = {}
    for key in sorted(keys):
        module, role = split_key(key)
        roles = modules.setdefault(module, {})
        if role in roles:
            raise refusal(f"has both {roles[role]} and {key}")
        roles[role] = key
    return modules


def split_key(key: str) -> tuple[str, TensorRole]:
    name = key.removeprefix(PREFIX)
    for role in TensorRole:
        if name.endswith(role.value):
            return name.removesuffix(role.value), role
    raise refusal(f"has {key}, which is not served: merge it into the model")
