"""The header of a GGUF file: versions, and settings that the file's layout depends on."""

import struct

import pytest

from inference.model.load.gguf.file.cursor import NotGguf, pack_string
from inference.model.load.gguf.file.header import MAGIC, GgufHeader, header_start, read_header

INT8, UINT16, UINT32, INT32, FLOAT32, STRING, ARRAY = 1, 2, 4, 5, 6, 8, 9
TENSOR = pack_string("a") + struct.pack("<IQIQ", 1, 8, 0, 0)


def header_of(file: bytes) -> GgufHeader:
    return read_header(lambda start, stop: file[start:stop], len(file), len(file))


def file_with_setting(name: str, value_type: int, value: bytes) -> bytes:
    return header_start(1, 1) + pack_string(name) + struct.pack("<I", value_type) + value + TENSOR


@pytest.mark.parametrize("alignment", [8, 32, 64])
def test_the_tensor_data_begins_at_the_alignment_that_the_file_sets(alignment: int) -> None:
    file = file_with_setting("general.alignment", UINT32, struct.pack("<I", alignment))
    header = header_of(file)
    assert header.data_offset >= len(file) and header.data_offset - len(file) < alignment
    assert header.data_offset % alignment == 0


@pytest.mark.parametrize(
    ("value_type", "value"),
    [
        (FLOAT32, struct.pack("<f", float("nan"))),
        (INT8, struct.pack("<b", -8)),
        (UINT32, struct.pack("<I", 0)),
        (UINT32, struct.pack("<I", 12)),
        (STRING, pack_string("32")),
        (ARRAY, struct.pack("<IQI", UINT32, 1, 32)),
    ],
)
def test_an_alignment_other_than_a_positive_uint32_multiple_of_8_is_refused(
    value_type: int, value: bytes
) -> None:
    with pytest.raises(NotGguf, match=r"general\.alignment"):
        header_of(file_with_setting("general.alignment", value_type, value))


@pytest.mark.parametrize("name", ["split.no", "split.count", "split.tensors.count"])
@pytest.mark.parametrize(
    ("value_type", "value"),
    [
        (FLOAT32, struct.pack("<f", float("nan"))),
        (INT32, struct.pack("<i", -1)),
        (STRING, pack_string("2")),
    ],
)
def test_split_settings_other_than_counts_are_refused(name: str, value_type: int, value: bytes) -> None:
    with pytest.raises(NotGguf, match=name):
        header_of(file_with_setting(name, value_type, value))


@pytest.mark.parametrize("value_type", [UINT16, UINT32, INT32])
def test_split_settings_may_have_any_integer_type(value_type: int) -> None:
    value = struct.pack("<H" if value_type == UINT16 else "<I", 2)
    assert header_of(file_with_setting("split.count", value_type, value)).numbers == {"split.count": 2}


@pytest.mark.parametrize("version", [2, 3])
def test_versions_2_and_3_are_read(version: int) -> None:
    file = MAGIC + struct.pack("<IQQ", version, 1, 0) + TENSOR
    assert header_of(file).num_tensors == 1


@pytest.mark.parametrize("version", [0, 1, 4, 65536 + 3])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(NotGguf, match=f"version {version}"):
        header_of(MAGIC + struct.pack("<IQQ", version, 1, 0) + TENSOR)


def test_a_big_endian_file_is_named_as_such() -> None:
    with pytest.raises(NotGguf, match="big-endian"):
        header_of(MAGIC + struct.pack(">IQQ", 3, 1, 0) + TENSOR)
