"""Native code of another level, or none, for some tests. The caches of this process forget it afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from inference.native.library import SETTING, available, library


@contextmanager
def native_setting(value: str) -> Iterator[None]:
    """HEARTH_NATIVE is `value`: the name of a level, or "off"."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SETTING, value)
        forget_library()
        try:
            yield
        finally:
            forget_library()


def forget_library() -> None:
    """Let the next call look for a library. `available` remembers for ever that there is none."""
    library.cache_clear()
    available.cache_clear()
