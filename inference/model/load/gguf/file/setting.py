"""A setting of a GGUF file: its name, the type of its value, and the value.

Knows the value types, and which of them the settings have that the layout of a file depends on. What becomes
of an array, of which a vocabulary has several large ones, is left to the caller.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any

from inference.model.load.gguf.file.cursor import Cursor, NotGguf, check_count

MAX_VALUES = 1 << 21  # of an array: they are read one by one
# Formats of the number and bool value types.
STRUCT_FORMATS: Mapping[int, str] = {
    value_type: f"<{code}" for value_type, code in zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True)
}
UINT32, STRING, ARRAY = 4, 8, 9
INTEGERS = (0, 1, 2, 3, 4, 5, 10, 11)
ALIGNMENT = "general.alignment"
DEFAULT_ALIGNMENT = 32  # bytes, for a file without that setting
SPLIT_NO, SPLIT_COUNT, SPLIT_TENSORS = "split.no", "split.count", "split.tensors.count"  # no counts from 0
# The value types of the settings that the layout of the file or of its shards depends on.
INTEGER_SETTINGS: Mapping[str, tuple[int, ...]] = {
    ALIGNMENT: (UINT32,),
    **dict.fromkeys((SPLIT_NO, SPLIT_COUNT, SPLIT_TENSORS), INTEGERS),
}

# (cursor at the first value, name, value type, number of values) → the value of the setting
ReadArray = Callable[[Cursor, str, int, int], Any]


def read_setting(cursor: Cursor, read_array: ReadArray) -> tuple[str, Any]:
    """The name and the value of the next setting. Raises NotGguf for a value that it cannot have."""
    name, value_type = cursor.text(), cursor.number("<I")
    if value_type not in INTEGER_SETTINGS.get(name, (value_type,)):
        raise NotGguf(f"a GGUF file whose {name} has the wrong value type, {value_type}")
    if value_type == STRING:
        return name, cursor.text()
    if value_type != ARRAY:
        return name, check_number(name, cursor.number(struct_format_of(value_type)))
    value_type, count = cursor.number("<I"), cursor.number("<Q")
    check_count(count, MAX_VALUES, f"values of {name}")
    return name, read_array(cursor, name, value_type, count)


def read_numbers(cursor: Cursor, value_type: int, count: int) -> list[Any]:
    """The values of an array of numbers or bools."""
    struct_format = struct_format_of(value_type)
    data = cursor.read(count * struct.calcsize(struct_format))
    return [value for (value,) in struct.iter_unpack(struct_format, data)]


def skip_array(cursor: Cursor, value_type: int, count: int) -> None:
    if value_type != STRING:
        cursor.read(count * struct.calcsize(struct_format_of(value_type)))
        return
    for _ in range(count):
        cursor.read(cursor.number("<Q"))


def struct_format_of(value_type: int) -> str:
    if value_type not in STRUCT_FORMATS:
        raise NotGguf(f"a GGUF file with a setting of unknown value type {value_type}")
    return STRUCT_FORMATS[value_type]


def check_number(name: str, value: Any) -> Any:
    """Return a setting's value. Raises NotGguf for an invalid alignment or a negative count."""
    if name == ALIGNMENT and (value == 0 or value % 8):
        raise NotGguf(f"a GGUF file whose {name} is {value} instead of a positive multiple of 8")
    if name in INTEGER_SETTINGS and value < 0:
        raise NotGguf(f"a GGUF file whose {name} is negative: {value}")
    return value
