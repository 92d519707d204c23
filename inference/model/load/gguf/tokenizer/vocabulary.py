"""The vocabulary of a GGUF file: tokens with their kinds and scores, merges, and settings for them.

Knows the names of the settings (gguf-py, constants.py: Keys.Tokenizer); not how a text becomes tokens.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from inference.model.load.gguf.file.cursor import TRUNCATED, Cursor, NotGguf
from inference.model.load.gguf.file.header import HEADER_BYTES
from inference.model.load.gguf.file.setting import STRING, read_numbers, read_setting
from inference.model.load.gguf.file.shards import Bytes, read_bytes

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # kinds of tokens (llama.h)
COUNT = struct.Struct("<Q")  # of values of an array, or of bytes of a string
READ_SIZE = 1 << 20
# By the kind of a vocabulary: special tokens that a file need not state (llama.cpp, src/llama-vocab.cpp).
DEFAULT_IDS: Mapping[str, Mapping[str, int]] = {
    "llama": {"bos": 1, "eos": 2, "unknown": 0},
    "t5": {"eos": 1, "unknown": 2, "padding": 0},
}
PREFIX, TEMPLATE = "tokenizer.ggml.", "tokenizer.chat_template"


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """settings: name → value, without those of the model's tensors and sizes."""

    settings: dict[str, Any]
    tokens: list[str]

    def get(self, name: str, default: Any = None) -> Any:
        """A setting of the tokenizer."""
        return self.settings.get(PREFIX + name, default)

    @property
    def architecture(self) -> str:
        return str(self.settings.get("general.architecture", ""))

    @property
    def kinds(self) -> Sequence[int]:
        """The kind of each token."""
        return self.get("token_type") or [NORMAL] * len(self.tokens)

    @property
    def scores(self) -> Sequence[float]:
        return self.get("scores") or [0.0] * len(self.tokens)

    @property
    def templates(self) -> str | dict[str, str] | None:
        """The chat template, or several by their names."""
        named = {
            name.removeprefix(f"{TEMPLATE}."): text
            for name, text in self.settings.items()
            if name.startswith(f"{TEMPLATE}.")
        }
        default = self.settings.get(TEMPLATE)
        return {"default": default, **named} if named and default else default

    def token_id(self, name: str) -> int | None:
        """The id of a special token, as the file states it or llama.cpp assumes it; None if there is none."""
        token_id = self.get(f"{name}_token_id", DEFAULT_IDS.get(str(self.get("model")), {}).get(name))
        return token_id if token_id is not None and 0 <= token_id < len(self.tokens) else None

    def token(self, name: str) -> str | None:
        """The text of a special token."""
        token_id = self.token_id(name)
        return None if token_id is None else self.tokens[token_id]


def read_vocabulary(file: Bytes) -> GgufVocabulary:
    """Read the vocabulary of a file, or of the first shard of one. Raises NotGguf for one without tokens."""
    cursor = Cursor(partial(read_bytes, file), len(file), len(file), READ_SIZE)
    (num_settings,) = struct.unpack_from("<Q", cursor.read(HEADER_BYTES), HEADER_BYTES - 8)
    settings = dict(read_setting(cursor, partial(read_array, file.data)) for _ in range(num_settings))
    tokens = settings.pop(f"{PREFIX}tokens", None)
    if not tokens:
        raise NotGguf("a GGUF file without a vocabulary: put the model's tokenizer.json into its folder")
    return GgufVocabulary(settings, [text or f"[EMPTY_{number}]" for number, text in enumerate(tokens)])


def read_array(data: memoryview, cursor: Cursor, name: str, value_type: int, count: int) -> list[Any]:
    if value_type != STRING:
        return read_numbers(cursor, value_type, count)
    strings, cursor.position = read_strings(data, cursor.position, count)
    return strings


def read_strings(data: memoryview, offset: int, count: int) -> tuple[list[str], int]:
    """`count` strings from an offset on, and where they end. Raises NotGguf if the data ends before."""
    strings = []
    for _ in range(count):
        begin = offset + COUNT.size
        if begin > len(data):
            raise NotGguf(TRUNCATED)
        (length,) = COUNT.unpack_from(data, offset)
        offset = begin + length
        strings.append(str(data[begin:offset], "utf-8", "replace"))
    if offset > len(data):
        raise NotGguf(TRUNCATED)
    return strings, offset
