"""Sums of scaled adapters, as llama.cpp's requests name them: each becomes an adapter when it is first named.

Knows adapters by their cards. inference/lora/sum.py computes the sum.
"""

import hashlib
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path

from flask import Flask, current_app
from msgspec import Struct

from inference.errors import BadRequest
from inference.lora.adapter import SUM_PREFIX, AdapterCard
from inference.lora.sum import Summand, write_sum
from inference.served import Served, find_adapter, listed_adapters
from settings.adapter_list import MAX_SCALE

SUMS = "adapter_sums"  # key in app.extensions: the AdapterSums
MAX_SUMS = 16  # kept at a time; the least used one is removed
NO_SOURCE = ""  # lists do not show it

Scales = Mapping[AdapterCard, float]


class AdapterScale(Struct):
    """An adapter by its place in GET /lora-adapters, and the factor of its change; 0: it changes nothing."""

    id: int
    scale: float


class AdapterSums:
    """The sums of one server, in a temporary folder.

    default_scales  scales of the requests that name no adapter, by the adapter's name; others count as 0
    """

    def __init__(self, default_scales: Mapping[str, float]) -> None:
        self.default_scales = default_scales
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._models: OrderedDict[str, Served] = OrderedDict()  # by the names of their sums; least used first
        self._lock = threading.Lock()  # one sum is made at a time

    def default_for(self, served: Served) -> Served:
        """`served` with the default scales. Raises as with_sum."""
        if not self.default_scales:
            return served
        cards = listed_adapters(served.backend)
        return self.with_sum(
            served,
            {card: self.default_scales[card.name] for card in cards if card.name in self.default_scales},
        )

    def with_sum(self, served: Served, scales: Scales) -> Served:
        """`served` with the sum of the scaled adapters. Raises BadRequest for adapters that have no sum."""
        nonzero = {card: scale for card, scale in scales.items() if scale}
        if not nonzero:
            return served
        is_single = list(nonzero.values()) == [1.0]
        return served.computed_with(next(iter(nonzero)) if is_single else self._find_or_make(served, nonzero))

    def _find_or_make(self, served: Served, scales: Scales) -> AdapterCard:
        name = sum_name(scales)
        with self._lock:
            card = find_adapter(served.backend, name) or self._make(served, name, scales)
            self._models[name] = served
            self._models.move_to_end(name)
            while len(self._models) > MAX_SUMS:
                self._remove(*self._models.popitem(last=False))
            return card

    def _make(self, served: Served, name: str, scales: Scales) -> AdapterCard:
        adapters = served.backend.adapters()
        assert adapters is not None  # it has the cards
        target = self._folder_of(name)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        summands = [Summand(adapters.folder_of(card.name), scale) for card, scale in scales.items()]
        write_sum(summands, target)
        return adapters.load(name, target, NO_SOURCE)

    def _remove(self, name: str, served: Served) -> None:
        adapters = served.backend.adapters()
        if adapters is not None and find_adapter(served.backend, name):
            adapters.unload(name)
        shutil.rmtree(self._folder_of(name), ignore_errors=True)

    def _folder_of(self, name: str) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="hearth-adapters-")
        return Path(self._folder.name) / name.replace(":", "_")


def sum_name(scales: Scales) -> str:
    """A name for the sum of these loads: another load of an adapter has another number."""
    text = " ".join(sorted(f"{card.number}={scale!r}" for card, scale in scales.items()))
    return f"{SUM_PREFIX}{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def parse_scales(served: Served, listed: Sequence[AdapterScale], field: str) -> Scales:
    """The adapters with their scales; of an id that comes twice, the last. Raises BadRequest."""
    cards, scales = listed_adapters(served.backend), {}
    for i, each in enumerate(listed):
        if not 0 <= each.id < len(cards):
            raise BadRequest(f"{field}[{i}].id", "must be an id that GET /lora-adapters lists", each.id)
        if not abs(each.scale) <= MAX_SCALE:
            raise BadRequest(f"{field}[{i}].scale", f"must be {-MAX_SCALE:g} to {MAX_SCALE:g}", each.scale)
        scales[cards[each.id]] = each.scale
    return scales


def install(app: Flask, default_scales: Mapping[str, float]) -> None:
    app.extensions[SUMS] = AdapterSums(default_scales)


def adapter_sums() -> AdapterSums:
    """The running app's sums."""
    sums: AdapterSums = current_app.extensions[SUMS]
    return sums
