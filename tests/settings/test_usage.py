"""What --help says."""

from pathlib import Path

from settings import flags, usage
from settings.layers import flag
from tests.settings.conftest import Resolved

SOURCE = (Path(__file__).parent.parent.parent / "config.py").read_text()


def test_help_lists_every_flag_and_hides_secrets(resolved: Resolved) -> None:
    told = usage.help_text(resolved(API_KEYS="sesame"), SOURCE)
    assert all(f"{name}" in told for name in (*flags.FLAGS, *flags.ACTIONS, *flags.SHORT))
    assert "sesame" not in told


def test_help_says_our_own_settings_first(resolved: Resolved) -> None:
    told = usage.help_text(resolved(), SOURCE)
    assert told.index("--threads") < told.index("--model-id") < told.index("--master-addr")


def test_the_columns_of_help_line_up() -> None:
    lines = usage.table([("--a", "1", "short"), ("--longer", "12345", "word " * 40)]).splitlines()
    assert [line.find(word) for line, word in zip(lines, ("short", "word", "word"), strict=False)] == [19] * 3
    assert max(map(len, lines)) <= usage.WIDTH


def test_a_table_without_values_has_two_columns() -> None:
    assert usage.table([("--a", "", "short")]) == "  --a  short"


def test_a_names_flag_is_in_small_letters() -> None:
    assert flag("MAX_BEST_OF") == "--max-best-of"
