"""The head of a GGUF file: settings, then a table of the tensors, whose values stand behind it.

Knows the layout (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) and how long values of each kind
are; not where the bytes come from, nor what a model makes of them. The vocabulary stands among the settings
and is most of them: of a file elsewhere it may not be read to its end, and then the table is not known.
"""

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

STEP = 1 << 16  # bytes asked for at once
MAGIC = b"GGUF"
BEGUN = 24  # bytes before the first setting
FORMS: Mapping[int, str] = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
COUNT, TEXT, LIST = 4, 8, 9  # a number of 32 bits, text, an array: kinds of a setting's value
TOKENS = "tokenizer.ggml.tokens"
ALIGNMENT = "general.alignment"
ALIGNED = 32  # bytes, where that setting is not there

# Bytes of a block of a tensor's values, by how many it has and by their kind (ggml, src/ggml.c, type_traits).
BLOCKS: Mapping[int, Mapping[int, int]] = {
    1: {0: 4, 1: 2, 24: 1, 25: 2, 26: 4, 27: 8, 28: 8, 30: 2},
    32: {2: 18, 3: 20, 6: 22, 7: 24, 8: 34, 9: 40, 20: 18, 39: 17},
    64: {40: 36},
    128: {41: 18},
    256: {
        10: 84,
        11: 110,
        12: 144,
        13: 176,
        14: 210,
        15: 292,
        16: 66,
        17: 74,
        18: 98,
        19: 50,
        21: 110,
        22: 82,
        23: 136,
        29: 56,
        34: 54,
        35: 66,
    },
}
KINDS = {kind: (values, width) for values, kinds in BLOCKS.items() for kind, width in kinds.items()}

ENDED = "a GGUF file that ends within its head"

Part = Callable[[int, int], bytes]  # [start, stop) of a file


class NoGguf(ValueError):
    """A file that is no GGUF file, or none that goes with the others; the text says why."""


class Enough(Exception):
    """What is still to be read is more than may be."""


class Tensor(NamedTuple):
    """A row of the table. `place`: where its values begin, counted from the first tensor's."""

    name: str
    sizes: tuple[int, ...]
    kind: int
    place: int

    @property
    def end(self) -> int:
        """Where its values end; where they begin, for a kind that is not known."""
        values, width = KINDS.get(self.kind, (1, 0))
        return self.place + math.prod(self.sizes) // values * width

    def written(self) -> bytes:
        sizes = struct.pack(f"<I{len(self.sizes)}Q", len(self.sizes), *self.sizes)
        return named(self.name) + sizes + struct.pack("<IQ", self.kind, self.place)


@dataclass(slots=True)
class Head:
    """What was read of the head.

    settings  each by its name, as the file has it; none of those that are lists of text
    texts     those whose value is text
    numbers   those whose value is a number
    vocab     how many tokens there are; 0 where the file does not say
    count     how many tensors there are
    tensors   the table; None where it was not reached
    table     where the table begins, and `values` where the tensors' values do
    """

    count: int
    settings: dict[str, bytes] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    vocab: int = 0
    tensors: list[Tensor] | None = None
    table: int = 0
    values: int = 0

    @property
    def architecture(self) -> str:
        return self.texts.get("general.architecture", "")

    @property
    def end(self) -> int:
        """How long the file must be; 0 where the table was not reached."""
        return self.values + max((tensor.end for tensor in self.tensors or ()), default=0)


class Cursor:
    """A place in a file that is read from its beginning, a step at a time, up to `most` bytes."""

    def __init__(self, part: Part, size: int, most: int, step: int) -> None:
        self.part, self.size, self.most, self.step = part, size, most, step
        self.data, self.place = bytearray(), 0

    def take(self, count: int) -> bytes:
        """The next bytes. Raises Enough, and NoGguf where the file has ended."""
        begin, end = self.place, self.place + count
        if end > self.size:
            raise NoGguf(ENDED)
        while len(self.data) < end:
            have = len(self.data)
            if have >= self.most:
                raise Enough
            self.data += self.part(have, min(have + self.step, self.most, self.size))
            if len(self.data) == have:
                raise NoGguf(ENDED)
        self.place = end
        return bytes(self.data[begin:end])

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self) -> str:
        return self.take(self.number("<Q")).decode(errors="replace")


def head(part: Part, size: int, most: int, step: int = STEP) -> Head:
    """Of a file of `size` bytes, reading at most `most` of them. Raises NoGguf, and what `part` does."""
    cursor = Cursor(part, size, most, step)
    if cursor.take(len(MAGIC)) != MAGIC:
        raise NoGguf("a file that does not begin as GGUF does")
    version, tensors, settings = (cursor.number(form) for form in ("<I", "<Q", "<Q"))
    if version < 2:
        raise NoGguf(f"GGUF of version {version}, which is too old")
    made = Head(tensors)
    try:
        for _ in range(settings):
            setting(cursor, made)
        made.table = cursor.place
        made.tensors = [tensor(cursor) for _ in range(tensors)]
        made.values = aligned(cursor.place, made)
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
        cursor.take(count * struct.calcsize(form(kind)))
    else:
        made.numbers[name] = cursor.number(form(kind))
    made.settings[name] = bytes(cursor.data[begin : cursor.place])


def form(kind: int) -> str:
    if kind not in FORMS:
        raise NoGguf(f"a GGUF file with a value of the kind {kind}")
    return FORMS[kind]


def tensor(cursor: Cursor) -> Tensor:
    name, dimensions = cursor.text(), cursor.number("<I")
    sizes = struct.unpack(f"<{dimensions}Q", cursor.take(8 * dimensions))
    return Tensor(name, sizes, cursor.number("<I"), cursor.number("<Q"))


def aligned(place: int, made: Head) -> int:
    """The first place from there on at which values may begin."""
    step = made.numbers.get(ALIGNMENT) or ALIGNED
    return int(-(-place // step) * step)


def begun(tensors: int, settings: int) -> bytes:
    """What stands before so many settings."""
    return MAGIC + struct.pack("<IQQ", 3, tensors, settings)


def named(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()
