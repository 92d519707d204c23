"""The vocabulary of a GGUF file that ends within it is refused in words."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from inference.model.load.gguf.file.cursor import TRUNCATED, NotGguf
from inference.model.load.gguf.tokenizer.vocabulary import Bytes, read_vocabulary

TOKENS = ["one", "", "three"]


@pytest.fixture
def file(tmp_path: Path) -> Bytes:
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_token_list(TOKENS)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file):
        write()
    writer.close()
    return np.fromfile(tmp_path / "a.gguf", dtype=np.uint8)


def test_tokens_have_their_texts(file: Bytes) -> None:
    assert read_vocabulary(file).tokens == ["one", "[EMPTY_1]", "three"]


@pytest.mark.parametrize("missing", [1, 5, 6, 20, 30])
def test_a_file_that_ends_within_its_vocabulary_is_refused(file: Bytes, missing: int) -> None:
    with pytest.raises(NotGguf, match=TRUNCATED):
        read_vocabulary(file[:-missing])
