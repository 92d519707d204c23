"""Each ISA level that this machine can build and run."""

from collections.abc import Iterator

import pytest

from inference.native import library as libraries
from inference.native.cpu_levels import EMULATED, LEVELS, Level
from inference.native.library import SETTING, NativeUnavailable, library


@pytest.fixture(params=(*LEVELS, EMULATED), ids=lambda level: level.name)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Level]:
    """Runs the test with native code of this level; skips it if the machine does not support the level."""
    current_level: Level = request.param
    monkeypatch.setenv(SETTING, current_level.name)
    libraries.library.cache_clear()
    try:
        library()
    except NativeUnavailable as reason:
        pytest.skip(str(reason))
    yield current_level
    libraries.library.cache_clear()
