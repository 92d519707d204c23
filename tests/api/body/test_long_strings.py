"""Long strings of large bodies are decoded in slices, to the same values as in one call."""

import json
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.body import large_json, long_strings
from api.body.json_body import parse
from api.body.large_json import LARGE_BYTES, check_counts, parse_large
from api.body.long_strings import LongStrings
from inference.errors import BadRequest

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]

LENGTH = 3 * LARGE_BYTES
TEXTS = {
    "ascii": "a b c ",
    "latin": "é b ",
    "cjk": "漢字",
    "emoji": "😀 a",
    "ascii with some chinese": "word " * 40 + "漢",
    "ascii with some emoji": "word " * 40 + "😀",
    "ascii with some latin": "word " * 40 + "é",
    "ascii that ends in chinese": "a" * LENGTH + "漢" * 99,
    "escapes": 'a\\n"' + "ü" * 70_000,
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_long_text_is_the_text_that_was_sent(name: str) -> None:
    text = TEXTS[name] * max(1, LENGTH // len(TEXTS[name]))
    value = {"prompt": ["x", {"a": text}, 1], text[:40]: text + "end"}
    parsed = parse(json.dumps(value, ensure_ascii=False).encode())
    assert parsed == value
    assert sys.getsizeof(parsed["prompt"][1]["a"]) == sys.getsizeof(text), "its characters are as wide"


TEXT = st.text(alphabet='a,:[{"\\é漢😀\n', max_size=60)
JSON_VALUES = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
)


@given(JSON_VALUES, st.integers(2, 9), st.integers(1, 9))
def test_runs_of_any_length_find_their_strings(value: Any, slice_bytes: int, decoded_bytes: int) -> None:
    data = json.dumps(value, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_json, "SLICE_BYTES", slice_bytes)
        patch.setattr(long_strings, "MIN_RUN_BYTES", 1)
        patch.setattr(long_strings, "DECODED_BYTES", decoded_bytes)
        assert parse_large(data) == value


def test_a_run_in_a_key_does_not_find_its_string() -> None:
    data = json.dumps({"é" * LENGTH: 1}, ensure_ascii=False).encode()
    strings = LongStrings(data, check_counts(data).runs)
    assert len(strings.without_runs) < LENGTH and not strings.put_back(json.loads(strings.without_runs))
    assert parse(data) == {"é" * LENGTH: 1}


@pytest.mark.parametrize(
    ("fault", "message"),
    [(b"\xff", "is not UTF-8"), (b"\xed\xa0\x80", "is not UTF-8"), (b"\x01", "is not JSON")],
)
def test_bytes_that_no_string_may_have_are_refused(fault: bytes, message: str) -> None:
    half = b"a" * (LENGTH // 2)
    with pytest.raises(BadRequest, match=message):
        parse(b'{"prompt": "' + half + fault + half + b'"}')


@pytest.mark.parametrize("rare", ["", "é", "漢", "😀", "\\u6f22"])
def test_no_call_copies_more_of_a_text_than_a_slice(monkeypatch: pytest.MonkeyPatch, rare: str) -> None:
    """However the widths of its slices differ: else one call would convert all to the widest."""
    copies: list[int] = []

    def copy_characters(to: int, to_start: int, text: str, start: int, num_chars: int) -> int:
        copies.append(num_chars)
        return int(long_strings_copy(to, to_start, text, start, num_chars))

    long_strings_copy = long_strings.copy_characters
    monkeypatch.setattr(long_strings, "copy_characters", copy_characters)
    data = f'{{"prompt": "{"a" * LENGTH}{rare}{"b" * LENGTH}"}}'.encode()
    text = parse(data)["prompt"]
    assert text == json.loads(data)["prompt"]
    assert sum(copies) == len(text) and max(copies) <= long_strings.DECODED_BYTES


@pytest.mark.system("linux")  # others do not count the faults of a thread
def test_the_memory_of_a_text_is_there_before_it_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pages are cleared without Python's lock, not by the copies."""
    faults: list[int] = []

    def copy_characters(*arguments: Any) -> int:
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        num_chars = long_strings_copy(*arguments)
        faults.append(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)
        return int(num_chars)

    long_strings_copy = long_strings.copy_characters
    monkeypatch.setattr(long_strings, "copy_characters", copy_characters)
    text = long_strings.measure("😀".encode() * (9 << 20), 0, 36 << 20)  # larger than what a heap keeps
    assert len(long_strings.join([text])) == 9 << 20
    assert sum(faults) < 100, "of 9,200 pages"


def test_no_slice_of_a_text_takes_long() -> None:
    text = ("漢 b" * (30 << 18)).encode()
    longest_s, last = 0.0, time.thread_time()
    for _ in long_strings.decode_slices(text, 0, len(text)):
        now = time.thread_time()
        longest_s, last = max(longest_s, now - last), now
    assert longest_s < 0.01
