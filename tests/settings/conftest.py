"""Settings from config.py and one other source, independent of the environment of the tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from settings.schema import BadSetting, Settings
from settings.sources import Source, read_config_file, resolve

CONFIG = read_config_file(Path(__file__).parent.parent.parent / "config.py")

Resolved = Callable[..., Settings]
Complaint = Callable[..., str]


@pytest.fixture
def resolved() -> Resolved:
    def from_here(**values: Any) -> Settings:
        return resolve([CONFIG, Source("here", values)])

    return from_here


@pytest.fixture
def complaint(resolved: Resolved) -> Complaint:
    """The message with which these values are refused."""

    def about(**values: Any) -> str:
        with pytest.raises(BadSetting) as caught:
            resolved(**values)
        return str(caught.value)

    return about
