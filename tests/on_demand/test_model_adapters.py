"""Adapters of a model that is loaded on demand: listed without it, loaded again with it, in its needs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from inference.errors import BadRequest, NotFound, ServerError
from inference.lora.adapter import AdapterCard
from inference.on_demand.model_adapters import ModelAdapters
from inference.remote.failures import UpstreamFailure, unreachable

COOK = Path("/adapters/cook")


class FakeProcessAdapters:
    """The adapters of a process that has just started.

    refused     names whose files it refuses
    num_loads   how often it was to load one
    is_running  False: it has not started, or its model sleeps, and nothing can be changed
    """

    def __init__(self) -> None:
        self.num_loads = 0
        self.loaded: dict[str, AdapterCard] = {}
        self.refused: set[str] = set()
        self.is_running = True

    def start(self, adapters: ModelAdapters) -> None:
        """A new process, which has loaded its LORA_ADAPTERS."""
        self.loaded, self.is_running = {}, True
        for item in adapters.items:
            self.add(item.partition("=")[0], item)

    async def cards(self) -> list[AdapterCard]:
        return list(self.loaded.values())

    async def load(self, name: str, folder: Path, source: str, *, replace: bool) -> AdapterCard:
        self.num_loads += 1
        if not self.is_running:
            raise unreachable("model", "no socket")
        if name in self.refused or (name in self.loaded and not replace):
            raise UpstreamFailure(BadRequest("adapter", "is refused"), "bad_request")
        return self.add(name, source)

    async def unload(self, name: str) -> None:
        if not self.is_running:
            raise unreachable("model", "no socket")
        if self.loaded.pop(name, None) is None:
            raise UpstreamFailure(NotFound("there is none"), "bad_request")

    async def folder_of(self, name: str) -> Path:
        return Path("/process") / name

    def add(self, name: str, source: str) -> AdapterCard:
        self.loaded[name] = AdapterCard(name, source, 1, rank=8, nbytes=100 + len(name), created=5)
        return self.loaded[name]


class FakeResidence:
    """A model that is in memory. num_uses: how often that was required."""

    def __init__(self) -> None:
        self.num_uses = 0
        self.is_attached = True

    @asynccontextmanager
    async def use(self) -> AsyncIterator[None]:
        self.num_uses += 1
        yield

    def run(self, work: Any) -> Any:
        try:
            return asyncio.run(work)
        except UpstreamFailure as failure:
            raise failure.error from None


class AdaptersSetup:
    """The adapters of a model with poet in its LORA_ADAPTERS. num_bytes: recorded last."""

    def __init__(self, max_adapters: int = 8) -> None:
        self.process, self.residence = FakeProcessAdapters(), FakeResidence()
        self.num_bytes = 0
        items = ("poet=/adapters/poet",)
        self.adapters = ModelAdapters(
            self.residence,  # type: ignore[arg-type]
            self.process,
            items,
            count(1),
            max_adapters,
            self.record_bytes,
        )

    def record_bytes(self, num_bytes: int) -> None:
        self.num_bytes = num_bytes

    def start_process(self) -> None:
        self.process.start(self.adapters)
        asyncio.run(self.adapters.restore())

    @property
    def names(self) -> list[str]:
        return [card.name for card in self.adapters.cards()]


@pytest.fixture
def setup() -> AdaptersSetup:
    return AdaptersSetup()


def test_adapters_of_the_settings_are_listed_before_the_first_load(setup: AdaptersSetup) -> None:
    (card,) = setup.adapters.cards()
    assert (card.name, card.source, card.rank, card.nbytes) == ("poet", "/adapters/poet", 0, 0)
    setup.start_process()
    (loaded,) = setup.adapters.cards()
    assert (loaded.rank, loaded.nbytes, loaded.number) == (8, 104, card.number)
    assert setup.num_bytes == 0, "the memory plan has those of the settings"


def test_a_loaded_adapter_is_loaded_again_with_its_model(setup: AdaptersSetup) -> None:
    setup.start_process()
    card = setup.adapters.load("cook", COOK, "cook")
    assert setup.residence.num_uses == 1 and setup.num_bytes == card.nbytes == 104
    setup.start_process()
    assert setup.names == ["poet", "cook"] == list(setup.process.loaded)
    assert setup.adapters.items == ("poet=/adapters/poet",)


def test_an_adapter_is_added_without_loading_its_model(setup: AdaptersSetup) -> None:
    setup.residence.is_attached = False
    setup.adapters.add("cook", COOK, "cook")
    setup.residence.is_attached = True
    setup.process.is_running = False
    setup.adapters.add("chef", COOK, "chef")
    assert setup.names == ["poet", "cook", "chef"] and setup.residence.num_uses == 0
    setup.start_process()
    assert setup.names == list(setup.process.loaded) and setup.num_bytes == 208


def test_an_adapter_is_added_to_a_model_in_memory(setup: AdaptersSetup) -> None:
    setup.start_process()
    setup.adapters.add("cook", COOK, "cook")
    assert list(setup.process.loaded) == setup.names == ["poet", "cook"] and setup.num_bytes == 104
    setup.process.refused.add("chef")
    with pytest.raises(BadRequest, match="is refused"):
        setup.adapters.add("chef", COOK, "chef")
    assert setup.names == ["poet", "cook"]


def test_a_process_that_wakes_gets_what_has_changed_while_its_model_slept(setup: AdaptersSetup) -> None:
    setup.start_process()
    for name in ("cook", "chef", "sailor"):
        setup.adapters.load(name, COOK, name)
    setup.process.is_running, setup.process.num_loads = False, 0
    setup.adapters.unload("cook")
    setup.adapters.add("chef", COOK, "another chef")
    setup.process.is_running = True
    asyncio.run(setup.adapters.restore())
    assert set(setup.process.loaded) == set(setup.names) == {"poet", "chef", "sailor"}
    assert setup.process.loaded["chef"].source == "another chef"
    assert setup.process.num_loads == 2, "chef, in vain and when it woke"


def test_another_load_has_another_number(setup: AdaptersSetup) -> None:
    setup.start_process()
    numbers = [setup.adapters.load("cook", COOK, "cook", replace=True).number for _ in range(2)]
    assert len({*numbers, setup.adapters.cards()[0].number}) == 3


def test_what_is_unloaded_stays_away(setup: AdaptersSetup) -> None:
    setup.start_process()
    setup.adapters.load("cook", COOK, "cook")
    for name in ("poet", "cook"):
        setup.adapters.unload(name)
    assert setup.names == [] == list(setup.process.loaded) and setup.num_bytes == 0
    setup.start_process()
    assert setup.names == [] == list(setup.process.loaded)
    with pytest.raises(NotFound, match="'cook' not found"):
        setup.adapters.unload("cook")


def test_an_adapter_is_unloaded_without_loading_its_model(setup: AdaptersSetup) -> None:
    setup.adapters.unload("poet")
    assert setup.names == [] and setup.residence.num_uses == 0


def test_what_is_unloaded_while_its_model_is_loading_leaves_it(setup: AdaptersSetup) -> None:
    setup.process.start(setup.adapters)
    setup.process.add("gone", "/adapters/gone")
    asyncio.run(setup.adapters.restore())
    assert list(setup.process.loaded) == setup.names == ["poet"]


def test_an_adapter_that_replaces_one_of_the_settings_stays(setup: AdaptersSetup) -> None:
    setup.start_process()
    setup.adapters.load("poet", COOK, "cook", replace=True)
    assert setup.adapters.items == ()
    setup.start_process()
    assert setup.process.loaded["poet"].source == "cook" == setup.adapters.cards()[0].source


def test_a_refusal_changes_nothing(setup: AdaptersSetup) -> None:
    setup.start_process()
    setup.process.refused.add("cook")
    loads: list[Callable[[], AdapterCard]] = [
        lambda: setup.adapters.load("cook", COOK, "cook"),
        lambda: setup.adapters.load("poet", COOK, "cook"),
    ]
    for load in loads:
        with pytest.raises(ServerError, match="adapter is refused"):
            load()
    assert setup.names == ["poet"] and setup.num_bytes == 0


def test_an_adapter_whose_files_are_refused_now_is_listed_no_more(
    setup: AdaptersSetup, caplog: pytest.LogCaptureFixture
) -> None:
    setup.start_process()
    setup.adapters.load("cook", COOK, "cook")
    setup.process.refused.add("cook")
    setup.start_process()
    assert setup.names == ["poet"] and setup.num_bytes == 0
    assert "event=adapter_not_restored adapter=cook: adapter is refused" in caplog.text


def test_no_more_bytes_count_than_are_in_memory_at_a_time() -> None:
    setup = AdaptersSetup(max_adapters=1)
    setup.start_process()
    for name in ("cook", "sailor"):
        setup.adapters.load(name, COOK, name)
    assert setup.num_bytes == 106


def test_a_folder_is_that_of_the_process(setup: AdaptersSetup) -> None:
    assert setup.adapters.folder_of("poet") == Path("/process/poet") and setup.residence.num_uses == 1
