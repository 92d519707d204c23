"""LoadRecipe: how each process of a model loads its part, and selects its runner. Most have one.

Knows the order of these steps; load_recipe.py fills them in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inference.model.load.loader import LoadedModel
from inference.model.parallel_layers import use_plain_collectives
from inference.model.runner_selection.select_runner import SelectedRunner


@dataclass(frozen=True, slots=True)
class LoadRecipe:
    """How every rank loads its model.

    num_shard      number of ranks
    device         "cpu" or "cuda"
    prepare        called before loading
    load           loads the model, or this rank's part of it
    select_runner  selects the runner of the loaded model
    """

    num_shard: int
    device: str
    prepare: Callable[[], None]
    load: Callable[[], LoadedModel]
    select_runner: Callable[[Any], SelectedRunner]

    def load_model(self) -> tuple[LoadedModel, SelectedRunner]:
        """Load the model, or this rank's part of it, and select its runner. Raises ServerError."""
        self.prepare()
        loaded = self.load()
        use_plain_collectives(loaded.model)
        return loaded, self.select_runner(loaded.model)
