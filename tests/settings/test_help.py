"""The output of --help."""

from pathlib import Path

from settings import flags, help
from settings.aliases import SPELLINGS
from settings.sources import flag_name
from tests.settings.conftest import Resolved

SOURCE = (Path(__file__).parent.parent.parent / "config.py").read_text()


def test_help_lists_every_flag_and_hides_secrets(resolved: Resolved) -> None:
    text = help.help_text(resolved(API_KEYS="sesame"), SOURCE)
    assert all(f"{name}" in text for name in (*flags.FLAGS, *flags.ACTIONS, *SPELLINGS))
    assert "sesame" not in text


def test_help_lists_own_settings_first(resolved: Resolved) -> None:
    text = help.help_text(resolved(), SOURCE)
    assert text.index("--threads") < text.index("--model-id") < text.index("--master-addr")


def test_the_columns_of_help_are_aligned() -> None:
    lines = help.format_rows([("--a", "1", "short"), ("--longer", "12345", "word " * 40)]).splitlines()
    assert [line.find(word) for line, word in zip(lines, ("short", "word", "word"), strict=False)] == [19] * 3
    assert max(map(len, lines)) <= help.WIDTH


def test_a_table_without_values_has_two_columns() -> None:
    assert help.format_rows([("--a", "", "short")]) == "  --a  short"


def test_the_flag_of_a_name_is_in_lower_case() -> None:
    assert flag_name("MAX_BEST_OF") == "--max-best-of"
