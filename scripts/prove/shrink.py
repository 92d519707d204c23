"""A config becomes one of a tiny model of the same build: its kinds of layers, its ratios of heads.

Knows how configs nest and how they list their layers; sizes are in sizes.py, exceptions in exceptions.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from scripts.prove.sizes import GROUPS, HEADS, LAYERS, SIZES, UNSAID

Settings = dict[str, Any]

MOST_LAYERS = 6
COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")
ROLES = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
# What would have `generate` do something else than take the most probable token.
GREEDY: Settings = {
    "forced_eos_token_id": None,
    "forced_bos_token_id": None,
    "num_beams": 1,
    "encoder_no_repeat_ngram_size": 0,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}


def shrunk(settings: Mapping[str, Any], ids: dict[str, int] | None = None) -> Settings:
    """What to change of a config's settings, its sub-configs' too; special tokens get ids below VOCAB."""
    ids = dict(ROLES) if ids is None else ids
    kept = layers(settings)
    changes: Settings = {}
    for name, value in settings.items():
        if nested(name, value):
            changes[name] = shrunk(value, ids) | {"model_type": value["model_type"]}
        elif value is None and name in UNSAID:
            changes[name] = UNSAID[name]
        elif isinstance(value, list) and kept and len(value) == count(settings):
            changes[name] = [sized(name, value[layer]) for layer in kept]
        elif name in GREEDY:
            changes[name] = GREEDY[name]
        elif is_token(name, value):
            changes[name] = ids.setdefault(name, max(3, *ids.values()) + 1)
        elif isinstance(value, int) and not isinstance(value, bool):
            changes[name] = group(settings, name) if name in GROUPS else sized(name, value)
    return changes | {name: len(kept) for name in COUNTS if kept and name in settings}


def nested(name: str, value: Any) -> bool:
    return isinstance(value, Mapping) and "model_type" in value


def is_token(name: str, value: Any) -> bool:
    """Whether a setting is the id of a special token."""
    held = value[0] if isinstance(value, list) and value else value
    return "token_i" in name and isinstance(held, int) and held >= 0


def sized(name: str, value: Any) -> Any:
    return min(SIZES.get(name, value), value) if isinstance(value, int) and value > 0 else value


def group(settings: Mapping[str, Any], name: str) -> int:
    """Heads of keys and values: all, some or one, as the model has them."""
    heads, value = settings.get(GROUPS[name]), settings[name]
    if not heads or value >= heads:
        return HEADS
    return 1 if value == 1 else HEADS // 2


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
    return sorted(found + spare[: max(0, LAYERS - len(found))])


def listed(settings: Mapping[str, Any]) -> Iterator[list[Any]]:
    length = count(settings)
    return (value for value in settings.values() if isinstance(value, list) and len(value) == length > 0)
