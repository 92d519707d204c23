"""Which of a model's files loading reads: those with its weights, and small ones.

Knows names and sizes alone.
"""

import re
from collections.abc import Iterable, Mapping

from checks.source.forms import SAFE, Forms, weights_of

SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
SMALL = (".json", ".model", ".jinja", ".txt", ".tiktoken")
OTHER_FRAMEWORKS = ("pytorch_model", "tf_model", "flax_model", "consolidated")


def needed(sizes: Mapping[str, int], shards: set[str] | None, code: bool, forms: Forms = SAFE) -> list[str]:
    """The files that loading reads: those with weights, and small ones. Raises Refused."""
    small = {name for name in sizes if is_small(name) or (code and name.endswith(".py"))}
    return sorted(weights_of(sizes, shards, forms) | small)


def is_small(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    wanted = file.endswith(SMALL) and not file.startswith(OTHER_FRAMEWORKS)
    return wanted and folder in ("", "additional_chat_templates")


def named_as_shards(names: Iterable[str]) -> set[str]:
    """What an index names, as far as the names tell it: for one that is too large to be read first."""
    return {name for name in names if SHARD.fullmatch(name)}
