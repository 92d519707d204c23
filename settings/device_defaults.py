"""The settings whose default depends on the device: 0 stands for it in config.py."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from settings.schema import Settings

# A GPU computes many rows in about the time of one, and long prompts in milliseconds.
DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "cpu": {
        "max_sequences": 64,
        "max_batch_tokens": 512,
        "max_queued_tokens": 100_000,
        "max_concurrent_requests": 128,
    },
    "cuda": {
        "max_sequences": 256,
        "max_batch_tokens": 2048,
        "max_queued_tokens": 1_000_000,
        "max_concurrent_requests": 1024,
    },
}


def fill_defaults(settings: Settings, device: str) -> Settings:
    """The settings with the defaults of `device` in place of 0."""
    unset: dict[str, Any] = {
        name: value for name, value in DEFAULTS[device].items() if not getattr(settings, name)
    }
    return replace(settings, **unset)
