"""The wire format of Protocol Buffers: the numbered fields of a message. Knows no message.

https://protobuf.dev/programming-guides/encoding
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from api.body.large_json import WHOLE_BODY
from inference.errors import BadRequest

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5
MAX_VARINT_BYTES = 10
MAX_FIELDS = 1 << 17  # of a message and all within it: each takes some 5 us; 1,024 data have 30,000
MAX_INTEGERS = 64  # of a repeated field
NO_BYTES = memoryview(b"")


class Fields(dict[int, list[Any]]):
    """Number -> values: int, float (fixed), or memoryview (length-delimited).

    budget  [number of fields that the message and all within it may still have]; they share the list
    """

    def __init__(self, budget: list[int]) -> None:
        super().__init__()
        self.budget = budget


def read_fields(data: bytes | memoryview, outer: Fields | None = None) -> Fields:
    """The fields of a message, which is within `outer`. Raises BadRequest for bytes that are no message."""
    fields = Fields([MAX_FIELDS] if outer is None else outer.budget)
    for number, value in iter_fields(data, fields.budget):
        fields.setdefault(number, []).append(value)
    return fields


def iter_fields(data: bytes | memoryview, budget: list[int]) -> Iterator[tuple[int, Any]]:
    """The number and the value of each field, in order. Raises BadRequest at the first broken one."""
    view, position = memoryview(data), 0
    while position < len(view):
        if not budget[0]:
            raise broken_message(f"has more than {MAX_FIELDS} fields: send several smaller requests")
        budget[0] -= 1
        tag, position = _read_varint(view, position)
        if tag >> 3 == 0 or (tag & 7) not in READERS:
            raise broken_message(f"has the tag {tag}")
        value, position = READERS[tag & 7](view, position)
        yield tag >> 3, value


def broken_message(reason: str) -> BadRequest:
    return BadRequest(WHOLE_BODY, f"is not the protobuf message that is expected: it {reason}")


def _read_varint(view: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for i, byte in enumerate(view[position : position + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + i + 1
    raise broken_message("ends within a number, or has one that is too long")


def _read_bytes(view: memoryview, position: int) -> tuple[memoryview, int]:
    length, position = _read_varint(view, position)
    if length > len(view) - position:
        raise broken_message(f"says {length} bytes where {len(view) - position} are left")
    return view[position : position + length], position + length


def _read_fixed(view: memoryview, position: int, code: str) -> tuple[float, int]:
    end = position + struct.calcsize(code)
    if end > len(view):
        raise broken_message("ends within a number")
    return struct.unpack_from(code, view, position)[0], end


READERS = {
    VARINT: _read_varint,
    LENGTH_DELIMITED: _read_bytes,
    FIXED64: lambda view, position: _read_fixed(view, position, "<d"),
    FIXED32: lambda view, position: _read_fixed(view, position, "<f"),
}


def last_value(fields: Fields, number: int, kind: type, default: Any) -> Any:
    """The value of a field that is not repeated, the last one of several; `default` if it is absent.

    Raises BadRequest for a value of another type.
    """
    values = fields.get(number)
    if not values:
        return default
    if not isinstance(values[-1], kind):
        raise broken_message(f"has a field {number} of another type")
    return values[-1]


def text(fields: Fields, number: int, default: str = "") -> str:
    """A field of the type string. Raises BadRequest."""
    value = last_value(fields, number, memoryview, None)
    if value is None:
        return default
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        raise broken_message(f"has a field {number} that is not UTF-8") from None


def messages(fields: Fields, number: int) -> list[memoryview]:
    """The bytes of the messages in a repeated field. Raises BadRequest."""
    values = fields.get(number, [])
    if not all(isinstance(value, memoryview) for value in values):
        raise broken_message(f"has a field {number} of another type")
    return values


def message_in(fields: Fields, number: int) -> Fields:
    """The fields of the message in a field that is not repeated; none if it is absent. Raises BadRequest."""
    return read_fields(last_value(fields, number, memoryview, NO_BYTES), fields)


def signed(value: int) -> int:
    """The signed integer whose 64 bits a varint holds."""
    return value - (1 << 64) if value >= 1 << 63 else value


def integers(fields: Fields, number: int) -> list[int]:
    """A repeated field of integers, packed or not. Raises BadRequest."""
    values: list[int] = []
    for value in fields.get(number, []):
        if isinstance(value, memoryview):
            values.extend(_integers_of(value, number, MAX_INTEGERS - len(values)))
        elif isinstance(value, int):
            values.append(signed(value))
        else:
            raise broken_message(f"has a field {number} of another type")
    return values


def _integers_of(payload: memoryview, number: int, max_integers: int) -> Iterator[int]:
    """The integers of a packed field. Raises BadRequest for more than max_integers."""
    position = count = 0
    while position < len(payload):
        if count == max_integers:
            raise broken_message(f"has more than {MAX_INTEGERS} integers in field {number}")
        value, position = _read_varint(payload, position)
        count += 1
        yield signed(value)


def map_entries(fields: Fields, number: int) -> Iterator[tuple[str, Fields]]:
    """The keys of a map<string, …>, each with the fields of its entry: the value is field 2."""
    for entry in messages(fields, number):
        entry_fields = read_fields(entry, fields)
        yield text(entry_fields, 1), entry_fields


def varint(value: int) -> bytes:
    """The bytes of an integer of 0 or more."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def integer_field(number: int, value: int) -> bytes:
    """A field of 0 or more; 0 is the default of every field and takes no bytes."""
    return varint(number << 3 | VARINT) + varint(value) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """A field of the type bytes, or a message."""
    return varint(number << 3 | LENGTH_DELIMITED) + varint(len(value)) + value


def double_field(number: int, value: float) -> bytes:
    return varint(number << 3 | FIXED64) + struct.pack("<d", value)


def packed_field(number: int, values: Iterable[int]) -> bytes:
    return bytes_field(number, b"".join(map(varint, values)))


def map_field(number: int, encoded_values: Mapping[str, bytes]) -> bytes:
    """A map<string, …>. encoded_values: field 2 of each entry, by its key."""
    return b"".join(
        bytes_field(number, bytes_field(1, key.encode()) + value) for key, value in encoded_values.items()
    )
