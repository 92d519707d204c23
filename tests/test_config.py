"""config.py, and the files that must agree with it: .env.example, docs/settings.md and docs/flags.md."""

from pathlib import Path

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


def test_the_docs_describe_every_setting_as_config_py_does() -> None:
    comments = help.read_comments((ROOT / "config.py").read_text())
    escaped = {name: comment.replace("|", r"\|") for name, comment in comments.items()}
    rows = {f"| `{name}` | `{CONFIG.values[name]!r}` | {escaped[name]} |" for name in NAMES}
    assert rows - set(DOC.splitlines()) == set()


def test_the_docs_name_every_flag_of_other_servers() -> None:
    for name in (*ALIASES, *UNSUPPORTED):
        assert f"`{flag_name(name)}`" in FLAGS_DOC or f"| `{name}` |" in DOC or name in NAMES, name


def test_the_docs_name_every_short_flag_of_other_servers() -> None:
    assert {short for short in SPELLINGS if f"`{short}`" not in FLAGS_DOC} == set()


def rows_of(name: str) -> list[str]:
    return [row for row in FLAGS_DOC.splitlines() if f"`{flag_name(name)}`" in row]


def test_the_docs_give_every_flag_of_other_servers_its_setting() -> None:
    for name in ALIASES.keys() - EVERYWHERE:
        assert any(f"| `{ALIASES[name].setting}` |" in row for row in rows_of(name)), name


def test_the_docs_say_why_a_flag_of_other_servers_is_unsupported() -> None:
    for name in UNSUPPORTED.keys() - EVERYWHERE:
        why = UNSUPPORTED[name].refused_because or UNSUPPORTED[name].no_effect_because
        assert any(why in row for row in rows_of(name)), name
