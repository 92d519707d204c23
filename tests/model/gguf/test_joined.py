"""A model in several GGUF files is the model that it is in one; files that are of no one model are named."""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from inference.errors import BadRequest
from inference.model.gguf.head import NoGguf
from inference.model.gguf.joined import joined
from inference.model.gguf.parts import parts, paths
from inference.model.load import Loaded, load
from tests import tiny
from tests.gguf_files import write

IDS = torch.tensor([[5, 6, 7, 8]])
reader = pytest.importorskip("transformers.integrations.gguf.reader")


def opened(source: Path) -> Loaded:
    return load(source, dtype="float32", device="cpu", trust_remote_code=False)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """The tiny Llama in one file of its own folder."""
    (tmp_path / "one").mkdir()
    return write(tiny.llama(tmp_path / "llama"), tmp_path / "one" / "tiny.gguf")


@pytest.fixture
def split(tmp_path: Path) -> Callable[..., Path]:
    """The first of the files that have so many of its tensors each."""

    def write_it(most: int = 8, name: str = "tiny.gguf", **options: bool) -> Path:
        (tmp_path / "many").mkdir(exist_ok=True)
        return write(tiny.llama(tmp_path / "llama"), tmp_path / "many" / name, most, **options)

    return write_it


Split = Callable[..., Path]


def refusal(first: Path) -> str:
    with pytest.raises(BadRequest) as caught:
        opened(first)
    return str(caught.value)


@pytest.mark.parametrize("apart", [False, True])
def test_it_computes_the_same(whole: Path, split: Split, apart: bool) -> None:
    first = split(apart=apart)
    assert len(paths(first)) == 3 + apart
    one, many = opened(whole), opened(first)
    assert one.tokenizer("hello").input_ids == many.tokenizer("hello").input_ids
    assert one.tokenizer.get_vocab() == many.tokenizer.get_vocab()
    with torch.inference_mode():
        assert torch.equal(one.model(IDS).logits, many.model(IDS).logits)


def test_both_of_transformers_readers_find_each_tensor(whole: Path, split: Split) -> None:
    first = split(1)
    with joined(first):
        values = reader.load_gguf_state_dict(reader.GgufHeader.from_file(str(first)))
        reading = gguf.GGUFReader(first)
    for tensor in gguf.GGUFReader(whole).tensors:
        assert values[tensor.name].data.tobytes() == tensor.data.tobytes()
    found = {tensor.name: tensor.data for tensor in reading.tensors}
    assert all(np.array_equal(found[tensor.name], tensor.data) for tensor in gguf.GGUFReader(whole).tensors)


def test_other_files_are_mapped_as_ever(whole: Path, split: Split) -> None:
    first = split()
    with joined(first):
        assert bytes(np.memmap(paths(first)[1], mode="r")) == paths(first)[1].read_bytes()
        np.memmap(first)
    assert bytes(np.memmap(first, mode="r")) == first.read_bytes()


def test_what_nobody_opens_so_is_not_taken_for_read(split: Split) -> None:
    with pytest.raises(NoGguf, match="does not read"), joined(split()):
        pass


def test_a_part_that_is_missing_is_named(split: Split) -> None:
    first = split()
    paths(first)[1].unlink()
    assert "tiny-00002-of-00003.gguf" in refusal(first)


def test_a_part_that_is_cut_off_is_named(split: Split) -> None:
    first = split()
    last = paths(first)[-1]
    last.write_bytes(last.read_bytes()[:-64])
    assert "tiny-00003-of-00003.gguf, which is cut off" in refusal(first)


def test_a_part_of_another_model_is_named(split: Split) -> None:
    first, other = split(), split(11, "other.gguf")
    paths(first)[1].write_bytes(paths(other)[1].read_bytes())
    assert "tiny-00002-of-00003.gguf, which says that it is part 2 of 2" in refusal(first)


def test_a_whole_model_is_no_part(whole: Path, split: Split) -> None:
    first = split()
    first.write_bytes(whole.read_bytes())
    assert "tiny-00001-of-00003.gguf, which says that it is a whole model" in refusal(first)


def test_parts_that_lack_tensors_are_refused(split: Split) -> None:
    first, other = split(8), split(7, "other.gguf")
    paths(first)[2].write_bytes(paths(other)[2].read_bytes())
    assert "tiny-00001-of-00003.gguf to tiny-00003-of-00003.gguf, which have 23 tensors" in refusal(first)


@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("a.gguf", ("a.gguf",)),
        ("b/a-00002-of-00002.gguf", ("b/a-00001-of-00002.gguf", "b/a-00002-of-00002.gguf")),
        ("a-00003-of-00002.gguf", ("a-00003-of-00002.gguf",)),
        ("a-00000-of-00000.gguf", ("a-00000-of-00000.gguf",)),
    ],
)
def test_a_name_tells_its_parts(name: str, every: tuple[str, ...]) -> None:
    assert parts(name) == every
