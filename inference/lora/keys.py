"""The names of an adapter's tensors, as peft 0.21 writes them: of which module, and in which role.

Knows names only. Every tensor must have a role: an unknown name is refused, never left out.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from inference.errors import short
from inference.lora.config import refusal

PREFIX = "base_model.model."
MAX_KEY_CHARS = 500


class TensorRole(Enum):
    """What a tensor is in the change of its module, by the end of its name: the first that matches.

    BASE_WEIGHT  a copy of the base's weight that peft saves beside pairs of embeddings and the output layer
    WEIGHT, BIAS, BASE_BIAS  a parameter in place of the model's
    """

    LORA_A = ".lora_A.weight"
    LORA_B = ".lora_B.weight"
    LORA_BIAS = ".lora_B.bias"
    MAGNITUDE = ".lora_magnitude_vector"
    EMBEDDING_A = ".lora_embedding_A"
    EMBEDDING_B = ".lora_embedding_B"
    TOKEN_ROWS = ".token_adapter.trainable_tokens_delta"
    BASE_WEIGHT = ".base_layer.weight"
    BASE_BIAS = ".base_layer.bias"
    WEIGHT = ".weight"
    BIAS = ".bias"


PAIR = {TensorRole.LORA_A, TensorRole.LORA_B}
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
    if len(key) > MAX_KEY_CHARS or not key.isprintable():
        raise refusal(f"has a tensor named {short(key)}, which is no name of a parameter")
    name = key.removeprefix(PREFIX)
    for role in TensorRole:
        if name.endswith(role.value):
            return name.removesuffix(role.value), role
    raise refusal(f"has {key}, which is not served: merge it into the model")
