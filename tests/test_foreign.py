"""What is nested too deeply is a wrong value like others."""

from pathlib import Path

import pytest

from inference.foreign import LEVELS, TooDeep, object_in, parsed


def test_as_many_levels_as_may_be_are_read() -> None:
    assert parsed("[" * LEVELS + "]" * LEVELS)
    assert parsed(b'{"a": [{"b": 1}]}') == {"a": [{"b": 1}]}


@pytest.mark.parametrize("levels", [LEVELS + 1, 900, 1_000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_more_levels_are_refused(opening: str, closing: str, levels: int) -> None:
    with pytest.raises(TooDeep, match="deeper than 100"):
        parsed(opening * levels + "1" + closing * levels)


def test_what_is_made_of_an_object_counts() -> None:
    assert parsed('[{"a": 1}, {}]', hook=len) == [1, 0]


@pytest.mark.parametrize("text", ["", "[", "9" * 5000, b"\xff", "[" * 100_000])
def test_every_fault_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parsed(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"{", "is not JSON that can be read: Expecting"),
        (b"\xff{}", "is not JSON that can be read: 'utf-8' codec"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "is not JSON that can be read: it is nested deeper"),
        (b"[]", "is not a JSON object"),
    ],
)
def test_a_file_that_holds_no_object_is_named(tmp_path: Path, text: bytes, why: str) -> None:
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(ValueError, match=f"config.json {why}"):
        object_in(tmp_path / "config.json")
