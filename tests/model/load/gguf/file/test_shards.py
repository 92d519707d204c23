"""A model split into several GGUF files equals the same model in one file; wrong shards are named."""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from inference.errors import BadRequest
from inference.model.load.gguf.file.cursor import NotGguf
from inference.model.load.gguf.file.header import GgufHeader
from inference.model.load.gguf.file.shards import (
    merge_files,
    merge_headers,
    open_as_one_file,
    shard_names,
    shard_paths,
)
from inference.model.load.loader import LoadedModel, load
from settings.groups import ModelSettings
from tests.tiny_models import tiny
from tests.tiny_models.gguf_files import write

IDS = torch.tensor([[5, 6, 7, 8]])
reader = pytest.importorskip("transformers.integrations.gguf.reader")


def load_model(source: Path) -> LoadedModel:
    return load(source, ModelSettings(dtype="float32", device="cpu"))


@pytest.fixture
def single_file(tmp_path: Path) -> Path:
    """The tiny Llama in one file of its own folder."""
    (tmp_path / "one").mkdir()
    return write(tiny.llama(tmp_path / "llama"), tmp_path / "one" / "tiny.gguf")


@pytest.fixture
def split(tmp_path: Path) -> Callable[..., Path]:
    """Writes a split model; returns the first shard. Each shard has at most `most` tensors."""

    def write_it(most: int = 8, name: str = "tiny.gguf", **options: bool) -> Path:
        (tmp_path / "many").mkdir(exist_ok=True)
        return write(tiny.llama(tmp_path / "llama"), tmp_path / "many" / name, most, **options)

    return write_it


Split = Callable[..., Path]


def refusal(first: Path) -> str:
    with pytest.raises(BadRequest) as caught:
        load_model(first)
    return str(caught.value)


@pytest.mark.parametrize("small_first_shard", [False, True])
def test_a_split_model_computes_the_same(single_file: Path, split: Split, small_first_shard: bool) -> None:
    first = split(small_first_shard=small_first_shard)
    assert len(shard_paths(first)) == 3 + small_first_shard
    one, many = load_model(single_file), load_model(first)
    assert one.tokenizer("hello").input_ids == many.tokenizer("hello").input_ids
    assert one.tokenizer.get_vocab() == many.tokenizer.get_vocab()
    with torch.inference_mode():
        assert torch.equal(one.model(IDS).logits, many.model(IDS).logits)


def test_both_transformers_readers_find_each_tensor(single_file: Path, split: Split) -> None:
    first = split(1)
    with open_as_one_file(first):
        values = reader.load_gguf_state_dict(reader.GgufHeader.from_file(str(first)))
        reading = gguf.GGUFReader(first)
    for tensor in gguf.GGUFReader(single_file).tensors:
        assert values[tensor.name].data.tobytes() == tensor.data.tobytes()
    tensors = {tensor.name: tensor.data for tensor in reading.tensors}
    assert all(
        np.array_equal(tensors[tensor.name], tensor.data) for tensor in gguf.GGUFReader(single_file).tensors
    )


def test_other_files_are_mapped_as_usual(single_file: Path, split: Split) -> None:
    first = split()
    with open_as_one_file(first):
        assert bytes(np.memmap(shard_paths(first)[1], mode="r")) == shard_paths(first)[1].read_bytes()
        np.memmap(first)
    assert bytes(np.memmap(first, mode="r")) == first.read_bytes()


def test_files_that_no_reader_opens_are_refused(split: Split) -> None:
    with pytest.raises(NotGguf, match="does not read"), open_as_one_file(split()):
        pass


def test_a_slice_of_the_merged_file_lies_within_the_header_or_within_one_file(split: Split) -> None:
    merged = merge_files(shard_paths(split()))
    end, second = len(merged), merged.offsets[1]
    assert bytes(merged[second : second + 4]) == b"GGUF" == bytes(merged[:4])
    slices = (slice(None), slice(end, None), slice(0, end + 1), slice(end, second + 1), slice(-4, None))
    for crossing in slices:
        with pytest.raises(AssertionError):
            merged[crossing]


def test_a_missing_shard_is_named(split: Split) -> None:
    first = split()
    shard_paths(first)[1].unlink()
    assert "tiny-00002-of-00003.gguf" in refusal(first)


def test_a_truncated_shard_is_named(split: Split) -> None:
    first = split()
    last = shard_paths(first)[-1]
    last.write_bytes(last.read_bytes()[:-64])
    assert "tiny-00003-of-00003.gguf, which is cut off" in refusal(first)


def test_a_shard_of_another_model_is_named(split: Split) -> None:
    first, other = split(), split(11, "other.gguf")
    shard_paths(first)[1].write_bytes(shard_paths(other)[1].read_bytes())
    assert "tiny-00002-of-00003.gguf, which says that it is part 2 of 2" in refusal(first)


def test_a_whole_model_is_not_a_shard(single_file: Path, split: Split) -> None:
    first = split()
    first.write_bytes(single_file.read_bytes())
    assert "tiny-00001-of-00003.gguf, which says that it is a whole model" in refusal(first)


def test_shards_that_lack_tensors_are_refused(split: Split) -> None:
    first, other = split(8), split(7, "other.gguf")
    shard_paths(first)[2].write_bytes(shard_paths(other)[2].read_bytes())
    assert "tiny-00001-of-00003.gguf to tiny-00003-of-00003.gguf, which have 23 tensors" in refusal(first)


def test_a_vocabulary_without_a_model_is_refused() -> None:
    with pytest.raises(NotGguf, match=r"a\.gguf, which has no tensors"):
        merge_headers(["a.gguf"], [99], [GgufHeader(0, tensors=[])])


@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("a.gguf", ("a.gguf",)),
        ("b/a-00002-of-00002.gguf", ("b/a-00001-of-00002.gguf", "b/a-00002-of-00002.gguf")),
        ("a-00003-of-00002.gguf", ("a-00003-of-00002.gguf",)),
        ("a-00000-of-00000.gguf", ("a-00000-of-00000.gguf",)),
    ],
)
def test_a_name_lists_its_shards(name: str, every: tuple[str, ...]) -> None:
    assert shard_names(name) == every
