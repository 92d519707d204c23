"""Shrinks a config to that of a tiny model with the same kinds of layers and the same kind of attention.

Knows how configs nest and how they list their layers. Sizes are in sizes.py, exceptions in overrides.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scripts.parity.sizes import DEFAULTS, GROUPS, NUM_HEADS, NUM_LAYERS, SIZES

Settings = dict[str, Any]

MAX_LAYERS = 6
LAYER_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")
SPECIAL_TOKEN_IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
UNCHANGED = ("is_decoder", "add_cross_attention")  # they tell a decoder from an encoder of the same type
# Settings that make `generate` decode greedily.
GREEDY: Settings = {
    "forced_eos_token_id": None,
    "forced_bos_token_id": None,
    "num_beams": 1,
    "encoder_no_repeat_ngram_size": 0,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """A config or a sub-config.

    settings  its settings
    layers    indices of the layers to keep; empty without per-layer lists
    ids       new id of each special token so far, shared with the other sub-configs
    """

    settings: Mapping[str, Any]
    layers: list[int]
    ids: dict[str, int]


def shrink(settings: Mapping[str, Any], ids: dict[str, int] | None = None) -> Settings:
    """The settings to change, sub-configs included. `ids`: as in ConfigNode; default: SPECIAL_TOKEN_IDS."""
    node = ConfigNode(settings, select_layers(settings), dict(SPECIAL_TOKEN_IDS) if ids is None else ids)
    changes: Settings = {}
    for name, value in settings.items():
        rule = next((rule for applies, rule in RULES if applies(node, name, value)), None)
        if rule:
            changes[name] = rule(node, name, value)
    return changes | {name: len(node.layers) for name in LAYER_COUNTS if node.layers and name in settings}


def is_nested(node: ConfigNode, name: str, value: Any) -> bool:
    return isinstance(value, Mapping) and "model_type" in value


def shrink_nested(node: ConfigNode, name: str, value: Any) -> Settings:
    return shrink(value, node.ids) | {"model_type": value["model_type"]}


def is_per_layer(node: ConfigNode, name: str, value: Any) -> bool:
    return isinstance(value, list) and bool(node.layers) and len(value) == num_layers(node.settings)


def select_values(node: ConfigNode, name: str, value: Any) -> list[Any]:
    return [small_size(node, name, value[layer]) for layer in node.layers]


def is_token(node: ConfigNode, name: str, value: Any) -> bool:
    """Whether the setting is the id of a special token, or a list of such ids."""
    first = value[0] if isinstance(value, list) and value else value
    return "token_i" in name and isinstance(first, int) and first >= 0


def small_token_id(node: ConfigNode, name: str, value: Any) -> int:
    """A small id, the same for the same name in all sub-configs."""
    return node.ids.setdefault(name, max(3, *node.ids.values()) + 1)


def small_kv_heads(node: ConfigNode, name: str, value: Any) -> int:
    """NUM_HEADS for multi-head, half of them for grouped-query, 1 for multi-query attention."""
    num_heads = node.settings.get(GROUPS[name])
    if not num_heads or value >= num_heads:
        return NUM_HEADS
    return 1 if value == 1 else NUM_HEADS // 2


def small_size(node: ConfigNode, name: str, value: Any) -> Any:
    is_size = isinstance(value, int) and value > 0
    return min(SIZES.get(name, value), value) if is_size else value


Rule = tuple[Callable[[ConfigNode, str, Any], bool], Callable[[ConfigNode, str, Any], Any]]
# The first rule that applies computes the new value. If no rule applies, the setting is unchanged.
RULES: tuple[Rule, ...] = (
    (is_nested, shrink_nested),
    (lambda _, name, value: value is None and name in DEFAULTS, lambda _, name, __: DEFAULTS[name]),
    (is_per_layer, select_values),
    (lambda _, name, __: name in UNCHANGED, lambda _, __, value: value),
    (lambda _, name, __: name in GREEDY, lambda _, name, __: GREEDY[name]),
    (is_token, small_token_id),
    (lambda _, name, value: name in GROUPS and isinstance(value, int), small_kv_heads),
    (lambda _, __, value: isinstance(value, int) and not isinstance(value, bool), small_size),
)


def num_layers(settings: Mapping[str, Any]) -> int:
    return next((settings[name] for name in LAYER_COUNTS if settings.get(name)), 0)


def select_layers(settings: Mapping[str, Any]) -> list[int]:
    """Indices of the layers to keep: the first of each kind in the per-layer lists; [] without such lists."""
    length = num_layers(settings)
    lists = [value for value in settings.values() if isinstance(value, list) and len(value) == length > 0]
    if not lists:
        return []
    kinds = [str(kind) for kind in zip(*lists, strict=True)]
    selected = [kinds.index(kind) for kind in dict.fromkeys(kinds)][:MAX_LAYERS]
    spare = [layer for layer in range(len(kinds)) if layer not in selected]
    return sorted(selected + spare[: max(0, NUM_LAYERS - len(selected))])
