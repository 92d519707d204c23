"""JSON from outside: too deep nesting is an invalid value like others."""

from pathlib import Path

import pytest

from inference.untrusted_json import MAX_LEVELS, TooDeep, parse_json, read_json_object


def test_the_maximum_number_of_levels_is_parsed() -> None:
    assert parse_json("[" * MAX_LEVELS + "]" * MAX_LEVELS)
    assert parse_json(b'{"a": [{"b": 1}]}') == {"a": [{"b": 1}]}


@pytest.mark.parametrize("levels", [MAX_LEVELS + 1, 900, 1_000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_more_levels_are_refused(opening: str, closing: str, levels: int) -> None:
    with pytest.raises(TooDeep, match="deeper than 100"):
        parse_json(opening * levels + "1" + closing * levels)


def test_the_hook_gets_every_object() -> None:
    assert parse_json('[{"a": 1}, {}]', hook=len) == [1, 0]


@pytest.mark.parametrize("text", ["", "[", "9" * 5000, b"\xff", "[" * 100_000])
def test_every_fault_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"{", "is not JSON that can be read: Expecting"),
        (b"\xff{}", "is not JSON that can be read: 'utf-8' codec"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "is not JSON that can be read: it is nested deeper"),
        (b"[]", "is not a JSON object"),
    ],
)
def test_a_file_that_contains_no_object_is_named(tmp_path: Path, text: bytes, why: str) -> None:
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(ValueError, match=f"config.json {why}"):
        read_json_object(tmp_path / "config.json")
