"""Literals of strangers: the same values as Python's, ValueErrors, and no work without bounds."""

import time

import pytest

from inference.remote.upstreams.gradio.untrusted_literal import MAX_CHARS, STRING, parse_literal


@pytest.mark.parametrize(
    "value", [{"response": 'it\'s "so"\n' * 20_000, "sources": [None, 1.5, True]}, [], "\\", "'" * 100_000]
)
def test_a_literal_is_read_however_long_its_strings_are(value: object) -> None:
    assert parse_literal(repr(value)) == value


@pytest.mark.parametrize(
    "text",
    ["(" * 300, "[" * 300 + "]" * 300, "-" * 20_000 + "1", "{[]: 1}", "print(1)", "1 +", "'a", "\0", ""],
)
def test_what_is_no_literal_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"no Python literal|malformed|null"):
        parse_literal(text)


@pytest.mark.parametrize("text", ["[" + "1," * MAX_CHARS + "]", "'a'," * MAX_CHARS, "-" * (MAX_CHARS + 1)])
def test_more_values_than_the_limit_are_refused_before_they_are_parsed(text: str) -> None:
    with pytest.raises(ValueError, match=f"more than {MAX_CHARS} characters"):
        parse_literal(text)


@pytest.mark.parametrize(
    "text", ["'\\'" * 100_000, "'\"" * 100_000 + "'", "'" + "\\" * 200_001, '"\\"' * 100_000]
)
def test_strings_are_found_in_one_pass(text: str) -> None:
    start = time.thread_time()
    STRING.sub("s", text)
    assert time.thread_time() - start < 0.5
