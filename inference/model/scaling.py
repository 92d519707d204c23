"""Rotary positions stretched as the user wishes, so that a model goes on beyond the length it was made for.

Changes a config before its model is made. Knows transformers' rope_parameters; rope.py knows the modules.
"""

from dataclasses import dataclass
from typing import Any

from inference.errors import BadRequest
from inference.model.place import length_of

KEPT = ("rope_theta", "partial_rotary_factor")
UNMOVED = "sliding_attention"  # layers that never look further back than before


@dataclass(frozen=True, slots=True)
class Scaling:
    """How positions are stretched, and by how much.

    kind  linear, dynamic or yarn; empty: they stay as they are
    """

    kind: str = ""
    factor: float = 1.0

    def stretch(self, config: Any) -> None:
        """Put this in the place of the config's own scaling. Raises BadRequest where there are no positions.

        The config's length becomes the one the model was trained with: dynamic frequencies begin there, and
        `length` makes of it what the model can take.
        """
        if not self.kind:
            return
        text = config.get_text_config()
        ropes = getattr(text, "rope_parameters", None)
        if not ropes:
            raise BadRequest("ROPE_SCALING", "needs a model with rotary positions", self.kind)
        layers = {key: rope for key, rope in ropes.items() if isinstance(rope, dict)}
        trained = next(filter(None, map(trained_length, (*layers.values(), ropes))), None)
        text.max_position_embeddings = trained = trained or length_of(config)
        if layers:
            moved = {key: self._rope(rope, trained) for key, rope in layers.items() if key != UNMOVED}
            text.rope_parameters = ropes | moved
        else:
            text.rope_parameters = self._rope(ropes, trained)

    def length(self, tokens: int) -> int:
        """What a model that takes so many tokens takes then."""
        return int(tokens * self.factor) if self.kind else tokens

    def _rope(self, rope: dict[str, Any], trained: int | None) -> dict[str, Any]:
        kept = {key: rope[key] for key in KEPT if rope.get(key) is not None}
        base = {"original_max_position_embeddings": trained} if self.kind == "yarn" else {}
        return kept | base | {"rope_type": self.kind, "factor": self.factor}


PLAIN = Scaling()


def trained_length(rope: dict[str, Any]) -> Any:
    """Tokens a model was trained with, where its own scaling tells them apart from those it takes."""
    return rope.get("original_max_position_embeddings")
