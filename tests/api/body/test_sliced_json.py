"""JSON is decoded in sections to the values of one call, and refused for the same faults."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.body import sliced_json
from api.body.sliced_json import SECTION_BYTES, NotDivisible, decode, decode_sections

SCALARS = st.none() | st.integers(-999, 999) | st.text(alphabet='a,:[]{}"\\é漢\n', max_size=9)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text("ab,", max_size=2), inner, max_size=5)
    ),
)


@contextmanager
def short_sections() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sliced_json, "SECTION_BYTES", 3)
        yield


@given(VALUES, st.booleans())
def test_sections_have_the_values_of_one_call(value: Any, is_ascii: bool) -> None:
    data = json.dumps(value, ensure_ascii=is_ascii).encode()
    with short_sections():
        assert repr(decode_sections(data)) == repr(value)


@given(VALUES, st.integers(0, 99), st.sampled_from('[]{},:"\\1 '))
def test_a_fault_is_refused_as_in_one_call(value: Any, index: int, fault: str) -> None:
    text = json.dumps(value)
    data = (text[:index] + fault + text[index:]).encode()
    with short_sections():
        assert outcome(decode, data) == outcome(msgspec.json.decode, data) or has_repeats(data)


def outcome(decode: Any, data: bytes) -> str:
    try:
        return repr(decode(data))
    except msgspec.MsgspecError as error:
        return str(error)


def has_repeats(data: bytes) -> bool:
    """Whether a key is repeated: then values may differ, and the caller refuses both."""
    counts: list[int] = []
    json.loads(data, object_pairs_hook=lambda pairs: counts.append(len(pairs) - len(dict(pairs))))
    return any(counts)


FAULTS = (b"[1,2,]", b'{"a":1,}', b"[,1]", b"[1,,2]", b"[[1],2}", b"1,2", b"[1],2", b"[1,2", b'{"a":[1,2],3}')


@pytest.mark.parametrize("data", FAULTS)
def test_no_section_hides_a_fault(data: bytes) -> None:
    with short_sections(), pytest.raises((NotDivisible, msgspec.MsgspecError)):
        decode_sections(data)


def test_a_key_that_hides_what_was_open_is_no_reason_to_crash() -> None:
    data = b'{"a": 1, "b": 2, "a": [3, 4, 5]}'
    with short_sections():
        assert decode(data) == {"a": [3, 4, 5], "b": 2}


KINDS = {
    "strings": json.dumps(["a,b"] * 60_000),
    "keys": json.dumps({f"key {index}": index for index in range(20_000)}),
    "messages": json.dumps({"messages": [{"role": "user", "content": "[,]"}] * 9_000, "model": "m"}),
    "a text with escapes": json.dumps({"a": "\\n," * 200_000, "b": [1] * 50_000}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_call_of_the_parser_gets_more_than_a_section(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is one string that is longer."""
    lengths: list[int] = []

    def decode_section(data: bytes) -> Any:
        lengths.append(len(data))
        return msgspec_decode(data)

    msgspec_decode = msgspec.json.decode
    monkeypatch.setattr(msgspec.json, "decode", decode_section)
    data = KINDS[kind].encode()
    assert decode(data) == json.loads(data)
    longest = max(lengths) if kind != "a text with escapes" else sorted(lengths)[-2]
    assert sum(lengths) >= len(data) and longest < 1.1 * SECTION_BYTES
