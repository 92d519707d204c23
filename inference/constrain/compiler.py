"""Constraint → Matcher, by llguidance. Knows grammars and a vocabulary; no sequence, no logits.

Compiling costs milliseconds, reading the vocabulary a second, once; a mask about 50 us. All of it is bounded.
"""

import logging
from functools import cached_property

import torch
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from transformers import PreTrainedTokenizerBase

from inference.constrain.grammars import grammar
from inference.constrain.vocabulary import open_vocabulary
from inference.errors import BadRequest
from inference.types import Constraint

log = logging.getLogger(__name__)

NOUNS = {
    "json_schema": "JSON schema",
    "json": "JSON object",
    "regex": "regular expression",
    "choice": "list of choices",
    "grammar": "grammar",
}
# llguidance's own limits but for these. Its fuel of 1,000,000 burns for 1.5 s. A lexer state takes up to
# 2 kB: 30,000 are 60 MB. An object with 2,000 optional properties is 8,000 items in a row of the parser.
LIMITS = {
    "initial_lexer_fuel": 200_000,
    "max_lexer_states": 30_000,
    "max_items_in_row": 10_000,
    "verbose_errors": False,
}
UNSATISFIED = "NoExtension"  # llguidance's word
UNSATISFIABLE = "no text of this model's tokens can satisfy it"


class Matcher:
    """Which tokens may come next. After the last that the grammar takes, only the ends.

    A matcher that exceeds a limit on its way allows nothing, which fails its sequence.
    """

    def __init__(self, automaton: LLMatcher, width: int) -> None:
        self._automaton = automaton
        self._width = width

    def allowed(self) -> torch.Tensor:
        """int32 (ceil(width / 32),), as inference.engine.sequence.Matcher says."""
        mask = torch.zeros((self._width + 31) // 32, dtype=torch.int32)
        if not self._failed():
            self._automaton.unsafe_compute_mask_ptr(mask.data_ptr(), mask.nbytes)
        return mask.zero_() if self._failed() else mask

    def advance(self, token: int) -> None:
        if not self._automaton.is_stopped():
            self._automaton.consume_token(token)

    def copy(self) -> "Matcher":
        """Another in the same state, for another answer to the same request."""
        return Matcher(self._automaton.deep_copy(), self._width)

    def _failed(self) -> bool:
        if self._automaton.is_error():
            log.warning("event=constraint_failed error=%r", reason(self._automaton.get_error()))
        return self._automaton.is_error()


class Compiler:
    """Makes matchers for one model.

    vocab   width of the logits
    ends    the model's own end tokens: what a finished grammar allows
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, vocab: int, ends: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._vocab = vocab
        self._ends = ends

    @cached_property
    def vocabulary(self) -> LLTokenizer:
        """Read on first use. Raises NotImplementedHere where the tokenizer does not allow constraints."""
        return open_vocabulary(self._tokenizer, self._vocab, self._ends)

    def compile(self, constraint: Constraint, field: str = "response_format") -> Matcher:
        """Raises BadRequest(field), and NotImplementedHere as `vocabulary` does. From any thread."""
        vocabulary = self.vocabulary
        try:
            text = grammar(constraint)
        except ValueError as error:
            raise _refusal(constraint, field, str(error)) from None
        automaton = LLMatcher(vocabulary, text, log_level=0, limits=LLParserLimits(**LIMITS))
        if fault := self._fault(automaton.deep_copy()):
            raise _refusal(constraint, field, fault)
        return Matcher(automaton, vocabulary.vocab_size)

    def _fault(self, probe: LLMatcher) -> str:
        """Why not to use it, as far as two masks show; some limits are met behind a first token only."""
        ends = sum(1 << end for end in self._ends)
        for _ in range(2):
            mask = b"" if probe.is_error() else probe.compute_bitmask()
            if probe.is_error() or not any(mask):
                error = probe.get_error() or UNSATISFIED
                return UNSATISFIABLE if UNSATISFIED in error else error
            inner = int.from_bytes(mask, "little") & ~ends
            if inner:
                probe.consume_token((inner & -inner).bit_length() - 1)
        return ""


def _refusal(constraint: Constraint, field: str, error: str) -> BadRequest:
    return BadRequest(field, f"is not a usable {NOUNS[constraint.kind]}: {reason(error)}")


def reason(error: str) -> str:
    """The line of llguidance's message that says what is wrong."""
    lines = error.strip().splitlines() or ["unknown error"]
    told = next((line for line in lines if line.startswith("error: ")), lines[0])
    return told.removeprefix("error: ")[:200]
