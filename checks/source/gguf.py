"""The head of a GGUF file: what its model is, and what transformers makes of that.

Knows the layout (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): settings, then a table of the
tensors. The vocabulary stands among the settings and is most of them: of a file on the Hub it is not read to
its end, and then the table behind it is not known.
"""

import os
import struct
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import AutoConfig

from checks.silence import silent
from checks.source.tensors import Unread

STEP = 1 << 16  # bytes asked for at once
MAGIC = b"GGUF"
WIDTHS: Mapping[int, int] = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
COUNT, TEXT, LIST = 4, 8, 9  # a number of 32 bits, text, an array: kinds of a setting's value
TOKENS = "tokenizer.ggml.tokens"
OUTPUT = "output.weight"  # the head, where it is not the embedding
STAND_IN = "stand-in.gguf"

Part = Callable[[int, int], bytes]  # [start, stop) of a file


class Enough(Exception):
    """What is still to be read is more than may be."""


@dataclass(slots=True)
class Head:
    """What was read of the head.

    settings  each by its name, as the file has it; none of those that are lists of text
    texts     those whose value is text
    vocab     how many tokens there are; 0 where the file does not say
    tensors   the tensors' names; None where they were not reached
    table     their table, as the file has it
    """

    settings: dict[str, bytes] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    vocab: int = 0
    tensors: list[str] | None = None
    table: bytes = b""

    @property
    def architecture(self) -> str:
        return self.texts.get("general.architecture", "")


class Cursor:
    """A place in a file that is read from its beginning, a step at a time, up to `most` bytes."""

    def __init__(self, part: Part, size: int, most: int) -> None:
        self.part, self.size, self.most = part, size, most
        self.data, self.place = b"", 0

    def take(self, count: int) -> bytes:
        """The next bytes. Raises Enough, and Unread where the file has ended."""
        end = self.place + count
        if end > self.size:
            raise Unread("a GGUF file that ends within its head")
        while len(self.data) < end:
            if len(self.data) >= self.most:
                raise Enough
            self.data += self.part(len(self.data), min(len(self.data) + STEP, self.most, self.size))
        self.place = end
        return self.data[end - count : end]

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self) -> str:
        return self.take(self.number("<Q")).decode(errors="replace")


def head(part: Part, size: int, most: int) -> Head:
    """Of a file of `size` bytes, reading at most `most` of them. Raises Unread."""
    cursor, made = Cursor(part, size, most), Head()
    if cursor.take(len(MAGIC)) != MAGIC:
        raise Unread("a file that does not begin as GGUF does")
    version, tensors, settings = (cursor.number(form) for form in ("<I", "<Q", "<Q"))
    if version < 2:
        raise Unread(f"GGUF of version {version}, which is too old")
    try:
        for _ in range(settings):
            setting(cursor, made)
        begin = cursor.place
        made.tensors = [tensor(cursor) for _ in range(tensors)]
        made.table = cursor.data[begin : cursor.place]
    except Enough:
        made.tensors = None
    return made


def setting(cursor: Cursor, made: Head) -> None:
    begin = cursor.place
    name, kind = cursor.text(), cursor.number("<I")
    if kind == TEXT:
        made.texts[name] = cursor.text()
    elif kind == LIST:
        kind, count = cursor.number("<I"), cursor.number("<Q")
        if name == TOKENS:
            made.vocab = count
        if kind == TEXT:
            for _ in range(count):
                cursor.take(cursor.number("<Q"))
            return
        cursor.take(count * width(kind))
    else:
        cursor.take(width(kind))
    made.settings[name] = cursor.data[begin : cursor.place]


def width(kind: int) -> int:
    if kind not in WIDTHS:
        raise Unread(f"a GGUF file with a value of the kind {kind}")
    return WIDTHS[kind]


def tensor(cursor: Cursor) -> str:
    name, dimensions = cursor.text(), cursor.number("<I")
    cursor.take(8 * dimensions + 4 + 8)  # sizes, the kind of its values, where they begin
    return name


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
            raise Unread(" ".join(str(error).split())[:200]) from error
    return {name: value for name, value in told.items() if value is not None and name != "_name_or_path"}


def written(made: Head) -> bytes:
    """The head as a file begins with it, without the vocabulary, whose length is told instead."""
    settings, size = dict(made.settings), f"{made.architecture}.vocab_size"
    if made.vocab and size not in settings:
        settings[size] = named(size) + struct.pack("<II", COUNT, made.vocab)
    names = made.tensors if made.tensors is not None else [OUTPUT]
    table = made.table or b"".join(named(name) + struct.pack("<IQIQ", 1, 1, 0, 0) for name in names)
    begin = MAGIC + struct.pack("<IQQ", 3, len(names), len(settings))
    return begin + b"".join(settings.values()) + table


def named(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()
