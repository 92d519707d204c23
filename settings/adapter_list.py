"""LORA_ADAPTERS: the adapters to serve from the start, in TGI's form and in vLLM's. Raises ValueError.

Knows the syntax only: whether a source is a folder or a name on the Hub is decided at the start.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ADAPTER_NAME = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}")
LIST_RULE = (
    "adapters with commas between them, each id, id@revision, name=path or name=path@revision "
    '(or vLLM\'s {"name": …, "path": …}), or with *scale behind it, with names of at most 200 letters, '
    "digits and . _ : / @ -"
)
SCALED_RULE = "adapters with their scales, as path:scale with commas between them, or path and scale by turns"
SCALED_ITEM = re.compile(r"(?P<item>.+)\*(?P<scale>-?[0-9]+(\.[0-9]+)?)")
DEFAULT_REVISION = "main"
MAX_SCALE = 100.0


@dataclass(frozen=True, slots=True)
class AdapterEntry:
    """An adapter of LORA_ADAPTERS.

    source    a folder or a name on the Hub; revision: of the latter
    scale     of its change in requests that name no adapter; 0: it has none there
    """

    name: str
    source: str
    revision: str = DEFAULT_REVISION
    scale: float = 0.0


def to_adapters(value: Any) -> tuple[str, ...]:
    """The value of LORA_ADAPTERS, with vLLM's JSON objects as name=path."""
    if isinstance(value, list | tuple):
        value = ",".join(value)
    if not isinstance(value, str):
        raise ValueError
    items = tuple(split_items(value))
    names = [parse_entry(item).name for item in items]
    if len(set(names)) < len(names):
        raise ValueError
    return items


def parse_entry(item: str) -> AdapterEntry:
    """An item of LORA_ADAPTERS. The name of a path without one is its last segment, else the source."""
    item, scale = split_scale(item)
    if item.count("=") > 1 or item.count("@") > 1:
        raise ValueError
    name, equals, location = item.rpartition("=")
    source, at, revision = location.partition("@")
    if not name:
        name = Path(source).expanduser().name if source.startswith(("/", ".", "~")) else source
    if not source or (at and not revision) or (equals and item.startswith("=")):
        raise ValueError
    if not ADAPTER_NAME.fullmatch(name):
        raise ValueError
    return AdapterEntry(name, source, revision or DEFAULT_REVISION, scale)


def split_scale(item: str) -> tuple[str, float]:
    """An item without its scale, and the scale; without one, 0."""
    scaled = SCALED_ITEM.fullmatch(item)
    scale = float(scaled["scale"]) if scaled else 0.0
    if abs(scale) > MAX_SCALE:
        raise ValueError
    return (scaled["item"] if scaled else item), scale


def default_scales(items: Iterable[str]) -> dict[str, float]:
    """The scales other than 0 of LORA_ADAPTERS, by the adapters' names."""
    return {entry.name: entry.scale for entry in map(parse_entry, items) if entry.scale}


def to_scaled_adapters(value: Any) -> tuple[str, ...]:
    """The value of LORA_ADAPTERS for llama.cpp's path:scale,…, and its former path and scale by turns."""
    words = value.split(",")
    if not all(":" in word for word in words):
        words = [":".join(pair) for pair in zip(words[::2], words[1::2], strict=True)]
    pairs = (word.rpartition(":") for word in words)
    items = tuple(f"{path}*{scale}" for path, _, scale in pairs)
    if not all(SCALED_ITEM.fullmatch(item) for item in items):
        raise ValueError
    return to_adapters(items)


def split_items(text: str) -> Iterator[str]:
    """The items between the commas. A comma inside of a JSON object separates none."""
    text = text.strip()
    while text:
        if text.startswith("{"):
            module, end = json.JSONDecoder().raw_decode(text)
            item, rest = from_json(module), text[end:].lstrip()
            if rest and not rest.startswith(","):
                raise ValueError
            text = rest.removeprefix(",").lstrip()
        else:
            item, _, text = text.partition(",")
            item, text = item.strip(), text.lstrip()
        if item:
            yield item


def from_json(module: Any) -> str:
    """name=path for vLLM's {"name", "path", "base_model_name"}; the base is the served model."""
    if not isinstance(module, dict) or module.keys() - {"name", "path", "base_model_name"}:
        raise ValueError
    name, path = module.get("name"), module.get("path")
    if not isinstance(name, str) or not isinstance(path, str) or "," in name + path:
        raise ValueError
    return f"{name}={path}"
