"""The adapters of a model that is loaded on demand: listed while it is not in memory, loaded again with it.

All changes are made on the event loop. Does not know what an adapter's files hold: the model's process does.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from inference.errors import NotFound
from inference.lora.adapter import AdapterCard
from inference.on_demand.model_residence import ModelResidence
from inference.remote.failures import UpstreamFailure
from settings.adapter_list import parse_entry

UNKNOWN = 0  # rank and size of an adapter of LORA_ADAPTERS before the first load of its model

log = logging.getLogger(__name__)


class ProcessAdapters(Protocol):
    """The adapters in the process of the model, while it runs. All methods raise UpstreamFailure."""

    async def cards(self) -> Sequence[AdapterCard]: ...
    async def load(self, name: str, folder: Path, source: str, *, replace: bool) -> AdapterCard: ...
    async def unload(self, name: str) -> None: ...
    async def folder_of(self, name: str) -> Path: ...


@dataclass(frozen=True, slots=True)
class OnDemandAdapter:
    """An adapter of a model that is loaded on demand.

    item        of LORA_ADAPTERS, which the model's process loads at its start; empty: a request loaded it
    folder      that it is loaded from with the model; None: as `item` says
    is_pending  the model's process has not loaded it, if there is one: it was starting, or the model slept
    """

    card: AdapterCard
    item: str = ""
    folder: Path | None = None
    is_pending: bool = False


class ModelAdapters:
    """The Adapters of one model.

    in_process    those of its process
    items         its LORA_ADAPTERS
    numbers       of loads; never the same for two models of this server
    max_adapters  in memory at a time
    record_bytes  is called with the bytes of the adapters that the memory plan does not have, if they change
    """

    def __init__(
        self,
        residence: ModelResidence,
        in_process: ProcessAdapters,
        items: Sequence[str],
        numbers: Iterator[int],
        max_adapters: int,
        record_bytes: Callable[[int], None],
    ) -> None:
        self._residence, self._in_process = residence, in_process
        self._numbers, self._max_adapters = numbers, max_adapters
        self._record_bytes = record_bytes
        self._adapters: Mapping[str, OnDemandAdapter] = {
            entry.name: OnDemandAdapter(self._new_card(entry.name, entry.source), item)
            for item, entry in ((item, parse_entry(item)) for item in items)
        }
        self._changing = asyncio.Lock()  # one adapter is loaded, or all are restored, at a time

    @property
    def items(self) -> tuple[str, ...]:
        """The items of LORA_ADAPTERS that the next process of the model loads itself."""
        return tuple(each.item for each in self._adapters.values() if each.item)

    def cards(self) -> Sequence[AdapterCard]:
        return [each.card for each in self._adapters.values()]

    def load(self, name: str, folder: Path, source: str, *, replace: bool = False) -> AdapterCard:
        """As Adapters.load. Loads the model first if it is not in memory; raises NotLoaded too."""
        return self._residence.run(self._load(name, folder, source, replace))

    def add(self, name: str, folder: Path, source: str) -> None:
        """List an adapter that is loaded with its model: at the next load, or now if it is in memory.

        Raises BadRequest for files that the model's process refuses.
        """
        if self._residence.is_attached:
            self._residence.run(self._add(name, folder, source))
        else:
            adapter = OnDemandAdapter(self._new_card(name, source), folder=folder, is_pending=True)
            self._list({**self._adapters, name: adapter})

    def folder_of(self, name: str) -> Path:
        """As Adapters.folder_of. Loads the model first if it is not in memory; raises NotLoaded too."""
        return self._residence.run(self._folder_of(name))

    def unload(self, name: str) -> None:
        self._residence.run(self._unload(name))

    async def restore(self) -> None:
        """Give a process that has just started or woken the listed adapters. Raises UpstreamFailure.

        An adapter whose files are refused now is listed no more.
        """
        async with self._changing:
            loaded = {card.name: card for card in await self._in_process.cards()}
            for name in loaded.keys() - self._adapters.keys():
                await self._in_process.unload(name)
            restored = {
                name: await self._restore(adapter, loaded.get(name))
                for name, adapter in self._adapters.items()
            }
            self._list({name: adapter for name, adapter in restored.items() if adapter})

    async def _restore(self, adapter: OnDemandAdapter, loaded: AdapterCard | None) -> OnDemandAdapter | None:
        """The adapter with what its process says of it; None: it is refused."""
        card = adapter.card
        try:
            if adapter.folder and (adapter.is_pending or loaded is None):
                loaded = await self._in_process.load(card.name, adapter.folder, card.source, replace=True)
        except UpstreamFailure as failure:
            if failure.outcome != "bad_request":
                raise
            log.warning("event=adapter_not_restored adapter=%s: %s", card.name, failure.error.message)
            return None
        assert loaded is not None, "a process loads its LORA_ADAPTERS before it listens"
        return replace(adapter, card=replace(card, rank=loaded.rank, nbytes=loaded.nbytes), is_pending=False)

    async def _load(self, name: str, folder: Path, source: str, replaces: bool) -> AdapterCard:
        async with self._residence.use(), self._changing:
            loaded = await self._in_process.load(name, folder, source, replace=replaces)
            card = replace(loaded, number=next(self._numbers))
            self._list({**self._adapters, name: OnDemandAdapter(card, folder=folder)})
            return card

    async def _add(self, name: str, folder: Path, source: str) -> None:
        async with self._changing:
            try:
                loaded = await self._in_process.load(name, folder, source, replace=True)
                adapter = OnDemandAdapter(replace(loaded, number=next(self._numbers)), folder=folder)
            except UpstreamFailure as failure:  # any but bad_request: the model is not in memory
                if failure.outcome == "bad_request":
                    raise
                adapter = OnDemandAdapter(self._new_card(name, source), folder=folder, is_pending=True)
            self._list({**self._adapters, name: adapter})

    async def _folder_of(self, name: str) -> Path:
        async with self._residence.use():
            return await self._in_process.folder_of(name)

    async def _unload(self, name: str) -> None:
        async with self._changing:
            if name not in self._adapters:
                raise NotFound(f"adapter {name!r} not found")
            self._list({other: each for other, each in self._adapters.items() if other != name})
            with suppress(UpstreamFailure):  # a process that does not run has none; one that sleeps, later
                await self._in_process.unload(name)

    def _list(self, adapters: Mapping[str, OnDemandAdapter]) -> None:
        self._adapters = adapters
        sizes = sorted((each.card.nbytes for each in adapters.values() if each.folder), reverse=True)
        self._record_bytes(sum(sizes[: self._max_adapters]))

    def _new_card(self, name: str, source: str) -> AdapterCard:
        return AdapterCard(name, source, next(self._numbers), UNKNOWN, UNKNOWN, int(time.time()))
