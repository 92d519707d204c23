"""Settings that are read an array at once are those that gguf's own reader finds."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from transformers.integrations.ggml import _gguf_parse_value

from inference.model.load.gguf.array_reader import ArrayReader, arrays_read_at_once
from inference.model.load.gguf.shards import merge_files

SETTINGS = {
    "a.texts": ["", "one", "zwei ü", "\0three"],
    "a.integers": [1, -2, 3],
    "a.floats": [0.5, -1.5],
    "a.flags": [True, False],
    "a.one": ["alone"],
}


def write_file(path: Path) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_string("a.text", "plain")
    for name, values in SETTINGS.items():
        writer.add_array(name, values)
    writer.add_uint32("a.number", 7)
    writer.add_tensor("weight", np.arange(64, dtype=np.float32))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    return path


def settings(reader: gguf.GGUFReader) -> dict[str, Any]:
    """The settings of a file as transformers takes them from its reader."""
    return {
        name: (
            field.offset,
            field.types,
            [_gguf_parse_value(field.parts[index], field.types) for index in field.data],
        )
        for name, field in reader.fields.items()
    }


def test_settings_and_tensors_are_those_of_the_plain_reader(tmp_path: Path) -> None:
    file = write_file(tmp_path / "a.gguf")
    plain, ours = gguf.GGUFReader(file), ArrayReader(file)
    assert settings(ours) == settings(plain)
    assert settings(ours)["a.texts"][2] == SETTINGS["a.texts"]
    assert np.array_equal(ours.get_tensor(0).data, plain.get_tensor(0).data)


def test_a_merged_header_can_be_read(tmp_path: Path, monkeypatch: Any) -> None:
    file = write_file(tmp_path / "a.gguf")
    expected, merged = settings(gguf.GGUFReader(file)), merge_files([file])
    monkeypatch.setattr(np, "memmap", lambda *_, **__: merged)
    assert settings(ArrayReader(file)) == expected


def test_transformers_finds_the_reader_within_the_context_only() -> None:
    plain = gguf.GGUFReader
    with arrays_read_at_once():
        assert gguf.GGUFReader is ArrayReader
    assert gguf.GGUFReader is plain
