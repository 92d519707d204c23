"""Whether the server has mapped the weights that a trainer maps.

The first start of a model packs them, writes them to the file, and then maps that.
"""

from dataclasses import replace
from pathlib import Path

from inference.process.memory.mmap_release import is_mapped
from tuning.types import TrainingBase


def with_served_weights(base: TrainingBase) -> TrainingBase:
    """The base with shares_weights as it is now."""
    return replace(base, shares_weights=is_served(base.weight_file))


def is_served(weight_file: str) -> bool:
    """Whether the server has mapped the file now; empty: there is none."""
    return bool(weight_file) and is_mapped(Path(weight_file))
