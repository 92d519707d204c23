"""Which level's library is loaded, and the error if there is none."""

from collections.abc import Iterator

import pytest

from inference.native import library as libraries
from inference.native.build import NativeUnavailable
from inference.native.cpu_levels import EMULATED
from inference.native.library import OFF, SETTING, available, candidate_levels, library
from tests.native.native_setting import forget_library, native_setting


@pytest.fixture(autouse=True)
def unloaded() -> Iterator[None]:
    forget_library()
    yield
    forget_library()


def test_switched_off_there_is_no_library() -> None:
    with native_setting(OFF), pytest.raises(NativeUnavailable, match="HEARTH_NATIVE is off"):
        library()


def test_a_test_without_a_library_takes_it_from_no_other_one() -> None:
    is_available = available()
    with native_setting(OFF):
        assert not available()
    assert available() == is_available


def test_a_level_that_does_not_run_here_is_refused_with_the_available_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(libraries, "processor_features", lambda: {"fpu"})
    for setting in ("avx512", "emulated", "fastest"):
        with pytest.raises(
            NativeUnavailable,
            match=f"HEARTH_NATIVE={setting} is not supported: this processor has off . plain",
        ):
            candidate_levels(setting)


def test_emulated_tiles_are_used_only_if_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "processor_features", lambda: EMULATED.needs)
    assert EMULATED not in candidate_levels("")


def test_a_level_that_cannot_be_built_falls_back_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[str] = []

    def load(level: libraries.Level) -> str:
        attempts.append(level.name)
        if level.name != "plain":
            raise NativeUnavailable(f"gcc does not know {level.name}")
        return "the plain one"

    monkeypatch.delenv(SETTING, raising=False)
    monkeypatch.setattr(libraries, "load", load)
    assert library() == "the plain one"
    assert attempts == [level.name for level in candidate_levels("")]


def test_the_library_is_loaded_once() -> None:
    try:
        assert library() is library()
    except NativeUnavailable as reason:
        pytest.skip(str(reason))
