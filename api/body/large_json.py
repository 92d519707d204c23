"""Large JSON bodies from untrusted clients: counted before they are parsed, and parsed quickly.

A parser holds Python's interpreter lock, and every stream waits for it. Its time depends on how many values
it creates, not on the bytes: the values are counted first, a slice at a time, without creating them.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import msgspec
import numpy as np

from api.body.long_strings import ByteRun, LongStrings
from api.body.sliced_json import decode, end_of_slice, without_escapes
from inference import untrusted_json
from inference.errors import BadRequest, TooLarge
from inference.process.memory.malloc import prefault_heap

WHOLE_BODY = "the body"  # the field of an error that is about no field
COUNTED_BYTES = 64 << 10  # a smaller body cannot exceed the limits below
LARGE_BYTES = 1 << 20  # parse_large parses the bodies that are larger
SLICE_BYTES = 64 << 10  # counted at a time: a few milliseconds at most
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BYTE_OFFSET = re.compile(r" \(byte (\d+)\)$")


class JsonCounts(NamedTuple):
    """The number of keys in a JSON, and the long runs of bytes within its strings."""

    num_keys: int
    runs: Sequence[ByteRun]


class CountLimit(NamedTuple):
    """At most `limit` of `what`, which are counted by the `signs` outside of strings."""

    what: str
    signs: bytes
    limit: int


# A million token ids fill any model's context. The other limits take as long to parse: under 50 ms each.
LIMITS = (
    CountLimit("values", b",", 1 << 20),
    CountLimit("lists and objects", b"[{", 1 << 16),
    CountLimit("keys", b":", 1 << 17),
)
MAX_STRINGS = 1 << 18
MAX_ESCAPE_SIGNS = 1 << 22  # backslashes
QUOTE, BACKSLASH, SIGNS = b'"', b"\\", b"".join(limit.signs for limit in LIMITS)
FIRST_PLAIN = 0x20  # bytes below it are control characters
CONTAINERS = (dict, list)
VALUE_BYTES = 64 << 20  # of as many values as LIMITS allows, without the characters of their texts
MAX_CHAR_BYTES = 4  # in memory, of a character that takes one byte in the body
UNCOUNTED = bytes(set(range(256)) - set(QUOTE + SIGNS))


def check_counts(data: bytes) -> JsonCounts:
    """Count what is in the JSON of `data`. Raises TooLarge for more of anything than its limit.

    Data that is not JSON has any count, up to the limits.
    """
    counts, num_quotes, num_escape_signs, start = [0] * len(LIMITS), 0, 0, 0
    runs: list[ByteRun] = []
    while start < len(data):
        stop = end_of_slice(data, start, SLICE_BYTES)
        if num_quotes % 2 and is_plain(data, start, stop):
            first = runs.pop().start if runs and runs[-1].stop == start else start
            runs.append(ByteRun(first, stop))
            start = stop
            continue
        section = data[start:stop]
        num_escape_signs += section.count(BACKSLASH)
        between_quotes = without_escapes(section).translate(None, UNCOUNTED).split(QUOTE)
        outside = b"".join(between_quotes[num_quotes % 2 :: 2])
        num_quotes += len(between_quotes) - 1
        for index, (what, signs, limit) in enumerate(LIMITS):
            counts[index] += sum(outside.count(sign) for sign in signs)
            refuse_above(counts[index], limit, what)
        refuse_above(num_quotes // 2, MAX_STRINGS, "strings")
        refuse_above(num_escape_signs, MAX_ESCAPE_SIGNS, "backslashes, which begin escapes in strings")
        start = stop
    return JsonCounts(counts[-1], runs)


def is_plain(data: bytes, start: int, stop: int) -> bool:
    """Whether the bytes of a string are its characters as they are: no end, escapes or control characters."""
    if data.find(QUOTE, start, stop) >= 0 or data.find(BACKSLASH, start, stop) >= 0:
        return False
    return int(np.frombuffer(data, np.uint8, stop - start, start).min()) >= FIRST_PLAIN


def refuse_above(count: int, limit: int, what: str) -> None:
    if count > limit:
        raise TooLarge(f"the body has more than {limit} {what}: send several smaller requests")


def parse_large(data: bytes) -> Any:
    """Parse JSON in UTF-8, as strictly as json_body.parse, in less time and with shorter messages.

    Raises BadRequest; TooLarge for more values than LIMITS; MemoryError if they may not fit into memory.
    """
    num_keys, runs = check_counts(data)
    check_memory(VALUE_BYTES + 2 * MAX_CHAR_BYTES * len(data))
    try:
        long_strings = LongStrings(data, runs)
        prefault_heap(len(long_strings.without_runs))
        value = decode(long_strings.without_runs.removeprefix(BYTE_ORDER_MARK))
        if not long_strings.put_back(value):
            value = decode(data.removeprefix(BYTE_ORDER_MARK))
    except UnicodeDecodeError:
        refuse("is not UTF-8")
    except RecursionError:
        refuse_depth()
    except msgspec.MsgspecError as error:
        message = BYTE_OFFSET.sub(r" at byte \1", str(error)).removeprefix("JSON is malformed: ")
        refuse(f"is not JSON: {message[:1].lower()}{message[1:]}")
    if count_keys(value) < num_keys:
        refuse("repeats a key in one object")
    return value


def check_memory(num_bytes: int) -> None:
    """Raise MemoryError unless `num_bytes` can be allocated: where an allocation fails, msgspec crashes.

    The bytes are not touched: zeroing them would keep all threads waiting for a tenth of a second.
    """
    np.empty(num_bytes, np.uint8)


def count_keys(value: Any) -> int:
    """The number of keys in `value`, which is refused if it is nested deeper than MAX_LEVELS."""
    level, depth, num_keys = [value], 0, 0
    while level:
        depth += 1
        if depth > untrusted_json.MAX_LEVELS:
            refuse_depth()
        num_keys += sum(len(each) for each in level if isinstance(each, dict))
        children = (child for parent in level for child in untrusted_json.children(parent))
        level = [child for child in children if isinstance(child, CONTAINERS)]
    return num_keys


def refuse_depth() -> NoReturn:
    refuse(f"is nested deeper than {untrusted_json.MAX_LEVELS} levels")


def refuse(rule: str) -> NoReturn:
    raise BadRequest(WHOLE_BODY, rule)
