"""What a model card says at its top. Only its licence is wanted here."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import metadata_load

CARD = "README.md"
TAG = "license:"
TEXTS = ("LICENSE", "LICENCE", "COPYING")


def licence_in(folder: Path, names: Iterable[str]) -> str:
    """What the folder of a model says of its licence; empty where that is nothing."""
    try:
        card = metadata_load(folder / CARD) if CARD in names else None
    except Exception:  # a card that is no YAML: yaml's own errors, which are of no common kind
        card = None
    return licence_of(card or {}, names)


def licence_of(card: Mapping[str, Any], names: Iterable[str]) -> str:
    """As a model card names it, and where its text is; empty where there is neither."""
    told = card.get("license_name") or card.get("license") or ""
    name = ", ".join(map(str, told)) if isinstance(told, list) else str(told)
    link = str(card.get("license_link") or next(filter(is_text, sorted(names)), ""))
    return f"{name} ({link})" if name and link else name or link


def licence_tagged(tags: Iterable[Any]) -> str:
    """The first of the licences among a model's tags, which are there where its card is not sent along."""
    return next((str(tag).removeprefix(TAG) for tag in tags if str(tag).startswith(TAG)), "")


def is_text(name: str) -> bool:
    return name.partition(".")[0].upper() in TEXTS
