"""config.py, and the files that must agree with it: .env.example, docs/settings.md and docs/flags.md."""

from pathlib import Path

import pytest

from settings import help
from settings.aliases import ALIASES, EVERYWHERE, SPELLINGS, UNSUPPORTED
from settings.schema import NAMES
from settings.sources import flag_name, read_config_file

ROOT = Path(__file__).parent.parent
CONFIG = read_config_file(ROOT / "config.py")
DOC = (ROOT / "docs/settings.md").read_text()
FLAGS_DOC = (ROOT / "docs/flags.md").read_text()


def test_config_py_sets_every_setting_and_nothing_else() -> None:
    assert list(CONFIG.values) == list(NAMES)


def test_every_setting_has_a_comment_in_config_py() -> None:
    assert all(help.read_comments((ROOT / "config.py").read_text()).values())


def test_env_example_lists_every_setting() -> None:
    lines = (ROOT / ".env.example").read_text().splitlines()
    assert sorted(line.partition("=")[0] for line in lines if "=" in line) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_docs_describe_a_setting_as_config_py_does(name: str) -> None:
    meaning = help.read_comments((ROOT / "config.py").read_text())[name]
    row = f"| `{name}` | `{CONFIG.values[name]!r}` | {meaning} |"
    assert row in DOC.splitlines()


@pytest.mark.parametrize("name", [*ALIASES, *UNSUPPORTED])
def test_the_docs_name_every_flag_of_other_servers(name: str) -> None:
    assert f"`{flag_name(name)}`" in FLAGS_DOC or f"| `{name}` |" in DOC or name in NAMES


def test_the_docs_name_every_short_flag_of_other_servers() -> None:
    assert {short for short in SPELLINGS if f"`{short}`" not in FLAGS_DOC} == set()


@pytest.mark.parametrize("name", [name for name in ALIASES if name not in EVERYWHERE])
def test_the_docs_give_a_flag_of_other_servers_its_setting(name: str) -> None:
    rows = [row for row in FLAGS_DOC.splitlines() if f"`{flag_name(name)}`" in row]
    assert any(f"| `{ALIASES[name].setting}` |" in row for row in rows)


@pytest.mark.parametrize("name", [name for name in UNSUPPORTED if name not in EVERYWHERE])
def test_the_docs_say_why_a_flag_of_other_servers_is_unsupported(name: str) -> None:
    why = UNSUPPORTED[name].refused_because or UNSUPPORTED[name].no_effect_because
    assert any(why in row and f"`{flag_name(name)}`" in row for row in FLAGS_DOC.splitlines())
