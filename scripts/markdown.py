"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def markdown_header(columns: Sequence[str]) -> list[str]:
    """The two lines of a table's header."""
    return [markdown_row(columns), markdown_row("---" for _ in columns)]


def markdown_row(values: Iterable[str]) -> str:
    return f"| {' | '.join(values)} |"
