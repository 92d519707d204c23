"""The settings of config.py, with some values changed, as main.py reads them."""

from pathlib import Path
from typing import Any

from settings.schema import Settings
from settings.sources import Source, read_config_file, resolve

CONFIG = read_config_file(Path(__file__).parents[2] / "config.py")


def parsed_settings(**values: Any) -> Settings:
    return resolve([CONFIG, Source("here", values)])
