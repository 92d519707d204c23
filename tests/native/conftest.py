"""Each ISA level that this machine can build and run."""

from collections.abc import Iterator

import pytest

from inference.native.cpu_levels import EMULATED, LEVELS, Level
from inference.native.library import NativeUnavailable, library
from tests.native.native_setting import native_setting


@pytest.fixture(scope="module", params=(*LEVELS, EMULATED), ids=lambda level: level.name)
def level(request: pytest.FixtureRequest) -> Iterator[Level]:
    """Runs a file's tests with native code of this level; skips them if the machine does not support it."""
    current_level: Level = request.param
    with native_setting(current_level.name):
        try:
            library()
        except NativeUnavailable as reason:
            pytest.skip(str(reason))
        yield current_level
