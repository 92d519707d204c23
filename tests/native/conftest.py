"""The levels that this machine can build and run, one test for each."""

from collections.abc import Iterator

import pytest

from inference.native import library as libraries
from inference.native.levels import EMULATED, LEVELS, Level
from inference.native.library import SETTING, Unbuilt, library


@pytest.fixture(params=(*LEVELS, EMULATED), ids=lambda level: level.name)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Level]:
    """Matrices are computed by this level meanwhile; skipped where it cannot be."""
    chosen: Level = request.param
    monkeypatch.setenv(SETTING, chosen.name)
    libraries.library.cache_clear()
    try:
        library()
    except Unbuilt as reason:
        pytest.skip(str(reason))
    yield chosen
    libraries.library.cache_clear()
