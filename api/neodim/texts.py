"""Texts and tokens as Neodim exchanges them: no special token comes in with a text or goes out with one.

Knows a Backend's tokenizer. A text is read by itself, whatever stands before it.
"""

from collections.abc import Sequence
from functools import cached_property

from inference.backend import Backend
from inference.errors import BadRequest
from inference.types import GenerationRequest

Ids = tuple[int, ...]


class Texts:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def plain(self, text: str, field: str) -> str:
        """The text without the special tokens written in it."""
        for id in self._special(self._ids(text, field, special=False)):
            text = text.replace(self._backend.detokenize([id], special=True), "")
        return text

    def encode(self, text: str, field: str = "prompt") -> Ids:
        """Raises BadRequest, blaming `field`."""
        ids = self._ids(text, field, special=False) if text else ()
        special = self._special(ids)
        return tuple(id for id in ids if id not in special) if special else ids

    def decode(self, ids: Sequence[int]) -> str:
        return self._backend.detokenize(ids, special=False)

    @cached_property
    def frame(self) -> tuple[Ids, Ids]:
        """What the tokenizer puts before and behind a text that a model is to read."""
        bare = self._ids("a", "prompt", special=False)
        whole = self._ids("a", "prompt", special=None)
        starts = (i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
        start = next(starts, len(whole))
        return whole[:start], whole[start + len(bare) :]

    def _ids(self, text: str, field: str, special: bool | None) -> Ids:
        try:
            pieces = self._backend.tokenize(GenerationRequest(text, special=special)).pieces
        except BadRequest as error:
            raise BadRequest(field, error.rule) from None
        return tuple(piece.id for piece in pieces)

    def _special(self, ids: Ids) -> set[int]:
        """Those of the ids that are special tokens."""
        spell = self._backend.detokenize
        if spell(ids, special=True) == spell(ids, special=False):
            return set()
        return {id for id in set(ids) if spell([id], special=True) and not spell([id], special=False)}
