"""Which level's library is loaded, and what is said where none is."""

from collections.abc import Iterator

import pytest

from inference.native import library as libraries
from inference.native.build import Unbuilt
from inference.native.levels import EMULATED
from inference.native.library import SETTING, library, wanted


@pytest.fixture(autouse=True)
def unloaded() -> Iterator[None]:
    library.cache_clear()
    yield
    library.cache_clear()


def test_switched_off_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "off")
    with pytest.raises(Unbuilt, match="HEARTH_NATIVE is off"):
        library()


def test_a_level_that_does_not_run_here_is_refused_with_those_that_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(libraries, "processor_features", lambda: {"fpu"})
    for setting in ("avx512", "emulated", "fastest"):
        with pytest.raises(Unbuilt, match=f"HEARTH_NATIVE is {setting}; this processor has off . plain"):
            wanted(setting)


def test_emulated_tiles_are_chosen_by_their_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "processor_features", lambda: EMULATED.needs)
    assert EMULATED not in wanted("")


def test_a_level_that_cannot_be_built_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def load(level: libraries.Level) -> str:
        tried.append(level.name)
        if level.name != "plain":
            raise Unbuilt(f"gcc does not know {level.name}")
        return "the plain one"

    monkeypatch.delenv(SETTING, raising=False)
    monkeypatch.setattr(libraries, "load", load)
    assert library() == "the plain one"
    assert tried == [level.name for level in wanted("")]


def test_the_library_is_loaded_once() -> None:
    try:
        assert library() is library()
    except Unbuilt as reason:
        pytest.skip(str(reason))
