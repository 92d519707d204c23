"""Each ISA level that this machine can build and run."""

from collections.abc import Iterator

import pytest

from inference.native import library as libraries
from inference.native.cpu_levels import EMULATED, LEVELS, Level
from inference.native.library import SETTING, NativeUnavailable, library


@pytest.fixture(scope="module", params=(*LEVELS, EMULATED), ids=lambda level: level.name)
def level(request: pytest.FixtureRequest) -> Iterator[Level]:
    """Runs a file's tests with native code of this level; skips them if the machine does not support it."""
    current_level: Level = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SETTING, current_level.name)
        libraries.library.cache_clear()
        try:
            library()
        except NativeUnavailable as reason:
            pytest.skip(str(reason))
        yield current_level
    libraries.library.cache_clear()
