"""Reads the licence of a model from its model card, tags or licence file."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import metadata_load

MODEL_CARD = "README.md"
LICENCE_TAG = "license:"
LICENCE_FILES = ("LICENSE", "LICENCE", "COPYING")


def licence_in(folder: Path, names: Iterable[str]) -> str:
    """The licence according to a model's folder; empty if there is none."""
    try:
        card = metadata_load(folder / MODEL_CARD) if MODEL_CARD in names else None
    except Exception:  # invalid YAML: its errors have no common base class
        card = None
    return licence_of(card or {}, names)


def licence_of(card: Mapping[str, Any], names: Iterable[str]) -> str:
    """The name of the licence and the place of its text; empty if neither is known."""
    licence = card.get("license_name") or card.get("license") or ""
    name = ", ".join(map(str, licence)) if isinstance(licence, list) else str(licence)
    licence_files = (file for file in sorted(names) if file.partition(".")[0].upper() in LICENCE_FILES)
    link = str(card.get("license_link") or next(licence_files, ""))
    return f"{name} ({link})" if name and link else name or link


def licence_tagged(tags: Iterable[Any]) -> str:
    """The first licence among a model's tags; the Hub may send tags without the card."""
    return next((str(tag).removeprefix(LICENCE_TAG) for tag in tags if str(tag).startswith(LICENCE_TAG)), "")
