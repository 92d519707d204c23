"""What a program prints ends it in no case."""

import io
import sys

import pytest

from inference.process.closed_output import exit_with


def test_characters_that_the_output_lacks_are_printed_by_their_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "cp1252"))
    with pytest.raises(SystemExit, match="7"):
        exit_with(lambda arguments: print("…⟦漢") or 7)
    assert written.getvalue().rstrip() == b"\x85\\u27e6\\u6f22"
