"""config.py and what must say the same: .env.example, and the README's table."""

from pathlib import Path

import pytest

from settings import usage
from settings.aliases import ALIASES
from settings.elsewhere import ELSEWHERE
from settings.fields import NAMES
from settings.layers import config_layer, flag

ROOT = Path(__file__).parent.parent
CONFIG = config_layer(ROOT / "config.py")
README = (ROOT / "README.md").read_text()


def test_config_py_sets_every_setting_and_nothing_else() -> None:
    assert list(CONFIG.values) == list(NAMES)


def test_every_setting_has_a_comment_in_config_py() -> None:
    assert all(usage.meanings((ROOT / "config.py").read_text()).values())


def test_env_example_lists_every_setting() -> None:
    lines = (ROOT / ".env.example").read_text().splitlines()
    assert sorted(line.partition("=")[0] for line in lines if "=" in line) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_tells_a_setting_as_config_py_does(name: str) -> None:
    meaning = usage.meanings((ROOT / "config.py").read_text())[name]
    row = f"| `{name}` | `{CONFIG.values[name]!r}` | {meaning} |"
    assert row in README.splitlines()


@pytest.mark.parametrize("name", [*ALIASES, *ELSEWHERE])
def test_the_readme_names_every_flag_of_other_servers(name: str) -> None:
    assert f"`{flag(name)}`" in README or f"| `{name}` |" in README
