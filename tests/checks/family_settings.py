"""The settings in config.json of a tiny model of each family."""

from typing import Any

from tests.tiny_models import families
from tests.tiny_models.families import FAMILIES, UNUSUAL, VOCAB


def raw(family: str) -> dict[str, Any]:
    return {"vocab_size": VOCAB} | (FAMILIES | UNUSUAL | families.UNCACHED)[family] | {"model_type": family}
