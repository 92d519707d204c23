"""What transformers makes of the head of a GGUF file.

Knows how to show it one: with the settings and the table that were read, and without the vocabulary.
"""

import os
import struct
import tempfile
from pathlib import Path
from typing import Any

from transformers import AutoConfig

from checks.silence import silent
from checks.source.tensors import Unread
from inference.errors import said
from inference.model.gguf.head import COUNT, Head, Tensor, begun, named

OUTPUT = Tensor("output.weight", (1,), 0, 0)  # the head, where it is not the embedding
STAND_IN = "stand-in.gguf"


def config(made: Head, size: int) -> dict[str, Any]:
    """What config.json would say, by transformers, which is shown a file with this head and nothing else.

    A head of its own is assumed where the table was not reached: the model is then not taken for too small.
    Raises Unread where transformers does not know the architecture.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / STAND_IN
        path.write_bytes(written(made))
        os.truncate(path, size)  # takes no room on the disk
        try:
            with silent():
                told = AutoConfig.from_pretrained(folder, gguf_file=STAND_IN).to_dict()
        except Exception as error:  # of transformers, which knows some architectures of many
            raise Unread(said(error)) from error
    return {name: value for name, value in told.items() if value is not None and name != "_name_or_path"}


def written(made: Head) -> bytes:
    """The head as a file begins with it, without the vocabulary, whose length is told instead."""
    settings, size = dict(made.settings), f"{made.architecture}.vocab_size"
    if made.vocab and size not in settings:
        settings[size] = named(size) + struct.pack("<II", COUNT, made.vocab)
    tensors = [OUTPUT] if made.tensors is None else made.tensors
    table = b"".join(tensor.written() for tensor in tensors)
    return begun(len(tensors), len(settings)) + b"".join(settings.values()) + table
