"""Large bodies are counted before they are parsed, and parsed as strictly as small ones."""

import json
import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.body import json_body, large_json
from api.body.large_json import LARGE_BYTES, LIMITS, MAX_ESCAPE_SIGNS, MAX_STRINGS, check_counts, count_keys
from inference.errors import BadRequest, TooLarge
from main import HOME

VALUES, CONTAINERS, KEYS = (limit.limit for limit in LIMITS)
TOO_MANY = {
    "values": b"[" + b"5," * (VALUES + 1) + b"5]",
    "lists and objects": b'{"prompt": [' + b"[]," * (CONTAINERS + 1) + b"[]]}",
    "keys": b"{" + b'"a":1,' * (KEYS + 1) + b'"a":1}',
    "strings": b"[" + b'"a",' * (MAX_STRINGS + 1) + b'"a"]',
    "backslashes": b'["' + b"\\n" * (MAX_ESCAPE_SIGNS + 1) + b'"]',
}


@pytest.mark.parametrize("what", TOO_MANY)
def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(what: str) -> None:
    with pytest.raises(TooLarge, match=f"more than .* {what}"):
        json_body.parse(TOO_MANY[what] + b" and no JSON")


def test_as_many_token_ids_as_a_context_holds_are_parsed() -> None:
    data = b'{"prompt": [' + b"5," * (VALUES - 1) + b"7]}"
    ids = json_body.parse(data)["prompt"]
    assert (len(ids), ids[-1]) == (VALUES, 7)


def test_signs_in_a_string_are_not_counted() -> None:
    text = '{[:,"\\' * VALUES
    assert json_body.parse(json.dumps({"prompt": text[:LARGE_BYTES]}).encode()) == {
        "prompt": text[:LARGE_BYTES]
    }


JSON_VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a,:[{"\\é\n', max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)


@given(JSON_VALUES, st.integers(2, 9), st.booleans())
def test_the_keys_are_counted_in_slices_of_any_size(value: Any, slice_bytes: int, ascii: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_json, "SLICE_BYTES", slice_bytes)
        assert check_counts(json.dumps(value, ensure_ascii=ascii).encode()).num_keys == count_keys(value)


FAULTS = {
    b'{"a": NaN}': "is not JSON: invalid character at byte 6",
    b'{"a": 1e400}': "is not JSON: number out of range",
    b'{"a": ' + b"9" * 5000 + b"}": "is not JSON: integer value out of range",
    b'{"a": "\\ud800"}': "is not JSON",
    b'{"a": 1, "a": 2}': "repeats a key",
    b'{"a": {"b": 1, "b": 1}}': "repeats a key",
    b"[" * 101 + b"]" * 101: "nested deeper",
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000: "nested deeper",
    b'{"a": "\xff"}': "not UTF-8",
    b'{"a": "\t"}': "is not JSON",
    b'{"a": 1} x': "is not JSON",
    b'{"a": 01}': "is not JSON",
    b"": "is not JSON",
}


@pytest.mark.parametrize("data", FAULTS, ids=lambda data: data[:24])
def test_a_faulty_large_body_is_refused_with_its_reason(data: bytes) -> None:
    with pytest.raises(BadRequest, match=FAULTS[data]):
        json_body.parse(data + b" " * (LARGE_BYTES + 1))


def test_a_large_body_is_parsed_as_a_small_one() -> None:
    data = b'\xef\xbb\xbf{"a": [1, -0, 1.5, 1e5, 123456789012345678901234567890, null, "\\ud83d\\ude00\\n"]}'
    value = json_body.parse(data + b" " * LARGE_BYTES)
    assert value == json_body.parse(data) and repr(value) == repr(json_body.parse(data))


# The package without its __init__, which imports the whole server.
ONLY_BODY = """
import sys
from types import ModuleType

sys.modules["api"] = ModuleType("api")
sys.modules["api"].__path__ = ["api"]
"""
LITTLE_MEMORY = """
import resource
from api.body.large_json import parse_large
data = b"[" + b'"ab",' * 250_000 + b"0]"
with open("/proc/self/statm") as statm:
    size = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (4 << 20), resource.RLIM_INFINITY))
try:
    parse_large(data)
except MemoryError:
    print("refused")
"""


@pytest.mark.system("linux")  # others do not limit the address space
def test_a_body_that_does_not_fit_into_memory_is_refused() -> None:
    command = [sys.executable, "-c", ONLY_BODY + LITTLE_MEMORY]
    process = subprocess.run(command, cwd=HOME, capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (0, "refused\n"), process.stderr


def test_the_memory_of_a_body_is_proved_without_touching_it() -> None:
    start = time.thread_time()
    large_json.check_memory(512 << 20)
    assert time.thread_time() - start < 0.02  # zeroing it takes ten times as long, and holds up all threads


# Runs in its own process: what is free in this process's heap is unknown.
COUNT_FAULTS = """
import resource
from unittest.mock import patch
import msgspec
from api.body.large_json import parse_large
from inference.process.memory.malloc import mmap_large_blocks, trim_heap

faults = []

def count_faults(data, decode=msgspec.json.decode):
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    value = decode(data)
    faults.append(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)
    return value

with mmap_large_blocks():  # as the server does while it loads its model
    pass
data = b"[" + b",".join([b'"' + b"a" * 20_000 + b'"'] * 800) + b"]"
trim_heap()
with patch("msgspec.json.decode", count_faults):
    assert len(parse_large(data)) == 800
print(sum(faults))
"""


@pytest.mark.system("linux")  # others do not count the faults of a thread
def test_the_memory_of_texts_is_there_before_they_are_decoded() -> None:
    command = [sys.executable, "-c", ONLY_BODY + COUNT_FAULTS]
    result = subprocess.run(command, cwd=HOME, check=True, capture_output=True, text=True)
    assert int(result.stdout) < 200, "of 3,900 pages"
