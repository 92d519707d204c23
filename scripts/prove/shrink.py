"""A config becomes one of a tiny model of the same build: its kinds of layers, its ratios of heads.

Knows how configs nest and how they list their layers; sizes are in sizes.py, exceptions in oddities.py.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scripts.prove.sizes import GROUPS, HEADS, PAIR, SIZES, UNSAID

Settings = dict[str, Any]

MOST_LAYERS = 6
COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")
ROLES = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
KEPT = ("is_decoder", "add_cross_attention")  # what tells a decoder from its encoder, of the same type
# What would have `generate` do something else than take the most probable token.
GREEDY: Settings = {
    "forced_eos_token_id": None,
    "forced_bos_token_id": None,
    "num_beams": 1,
    "encoder_no_repeat_ngram_size": 0,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}


@dataclass(frozen=True, slots=True)
class Part:
    """A config or a sub-config: its settings, the layers to keep, and ids given to special tokens so far."""

    settings: Mapping[str, Any]
    kept: list[int]
    ids: dict[str, int]


def shrunk(settings: Mapping[str, Any], ids: dict[str, int] | None = None) -> Settings:
    """What to change of a config's settings, its sub-configs' too; special tokens get ids below VOCAB."""
    part = Part(settings, layers(settings), dict(ROLES) if ids is None else ids)
    changes: Settings = {}
    for name, value in settings.items():
        make = next((make for applies, make in RULES if applies(part, name, value)), None)
        if make:
            changes[name] = make(part, name, value)
    return changes | {name: len(part.kept) for name in COUNTS if part.kept and name in settings}


def nested(part: Part, name: str, value: Any) -> bool:
    return isinstance(value, Mapping) and "model_type" in value


def smaller(part: Part, name: str, value: Any) -> Settings:
    return shrunk(value, part.ids) | {"model_type": value["model_type"]}


def by_layer(part: Part, name: str, value: Any) -> bool:
    return isinstance(value, list) and bool(part.kept) and len(value) == count(part.settings)


def shorter(part: Part, name: str, value: Any) -> list[Any]:
    return [sized(part, name, value[layer]) for layer in part.kept]


def is_token(part: Part, name: str, value: Any) -> bool:
    """Whether a setting is the id of a special token."""
    held = value[0] if isinstance(value, list) and value else value
    return "token_i" in name and isinstance(held, int) and held >= 0


def token(part: Part, name: str, value: Any) -> int:
    """An id below VOCAB, the same for the same name in each part."""
    return part.ids.setdefault(name, max(3, *part.ids.values()) + 1)


def grouped(part: Part, name: str, value: Any) -> int:
    """Heads of keys and values: all, some or one, as the model has them."""
    heads = part.settings.get(GROUPS[name])
    if not heads or value >= heads:
        return HEADS
    return 1 if value == 1 else HEADS // 2


def sized(part: Part, name: str, value: Any) -> Any:
    number = isinstance(value, int) and value > 0
    return min(SIZES.get(name, value), value) if number else value


Rule = tuple[Callable[[Part, str, Any], bool], Callable[[Part, str, Any], Any]]
# The first that applies makes the new value; where none does, the model's own stays.
RULES: tuple[Rule, ...] = (
    (nested, smaller),
    (lambda _, name, value: value is None and name in UNSAID, lambda _, name, __: UNSAID[name]),
    (by_layer, shorter),
    (lambda _, name, __: name in KEPT, lambda _, __, value: value),
    (lambda _, name, __: name in GREEDY, lambda _, name, __: GREEDY[name]),
    (is_token, token),
    (lambda _, name, value: name in GROUPS and isinstance(value, int), grouped),
    (lambda _, __, value: isinstance(value, int) and not isinstance(value, bool), sized),
)


def count(settings: Mapping[str, Any]) -> int:
    return next((settings[name] for name in COUNTS if settings.get(name)), 0)


def layers(settings: Mapping[str, Any]) -> list[int]:
    """Which layers to keep: the first of each kind that the per-layer lists tell apart; [] without a list."""
    lists = list(listed(settings))
    if not lists:
        return []
    kinds = [str(kind) for kind in zip(*lists, strict=True)]
    found = [kinds.index(kind) for kind in dict.fromkeys(kinds)][:MOST_LAYERS]
    spare = [layer for layer in range(len(kinds)) if layer not in found]
    return sorted(found + spare[: max(0, PAIR - len(found))])


def listed(settings: Mapping[str, Any]) -> Iterator[list[Any]]:
    length = count(settings)
    return (value for value in settings.values() if isinstance(value, list) and len(value) == length > 0)
