"""Settings from config.py and one more place, whatever the environment of the tests is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from settings.fields import BadSetting, Settings
from settings.layers import Layer, config_layer
from settings.resolve import resolve

CONFIG = config_layer(Path(__file__).parent.parent.parent / "config.py")

Resolved = Callable[..., Settings]
Complaint = Callable[..., str]


@pytest.fixture
def resolved() -> Resolved:
    def from_here(**values: Any) -> Settings:
        return resolve([CONFIG, Layer("here", values)])

    return from_here


@pytest.fixture
def complaint(resolved: Resolved) -> Complaint:
    """Why values are refused."""

    def about(**values: Any) -> str:
        with pytest.raises(BadSetting) as caught:
            resolved(**values)
        return str(caught.value)

    return about
