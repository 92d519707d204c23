"""Compiles a Constraint into a GrammarMatcher with llguidance. Knows no sequences and no logits.

Compiling takes milliseconds, a mask about 50 us, and reading the vocabulary about a second, once. LIMITS
bounds the costs of a request.
"""

import logging
from functools import cached_property

import torch
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from transformers import PreTrainedTokenizerBase

from inference.errors import BadRequest
from inference.structured_output.grammars import to_grammar
from inference.structured_output.tokenizer_info import open_llguidance_tokenizer
from inference.types import Constraint

log = logging.getLogger(__name__)

NOUNS = {
    "json_schema": "JSON schema",
    "json": "JSON object",
    "regex": "regular expression",
    "choice": "list of choices",
    "grammar": "grammar",
}
# Overrides of llguidance's limits. Its default fuel of 1,000,000 lasts for 1.5 s. A lexer state takes up to
# 2 kB: 30,000 are 60 MB. An object with 2,000 optional properties has 8,000 items in a row of the parser.
LIMITS = {
    "initial_lexer_fuel": 200_000,
    "max_lexer_states": 30_000,
    "max_items_in_row": 10_000,
    "verbose_errors": False,
}
UNSATISFIED_ERROR = "NoExtension"  # llguidance's word
UNSATISFIABLE_RULE = "no text of this model's tokens can satisfy it"


class GrammarMatcher:
    """The state of one answer: which tokens the constraint allows next.

    After a complete text, only end tokens are allowed. A matcher that exceeds a limit allows no token, which
    makes its sequence fail.
    """

    def __init__(self, automaton: LLMatcher, vocab_size: int) -> None:
        self._automaton = automaton
        self._vocab_size = vocab_size

    def token_bitmask(self) -> torch.Tensor:
        """The allowed tokens, int32 (ceil(vocab / 32),): see Matcher in inference.engine.sequence."""
        mask = torch.zeros((self._vocab_size + 31) // 32, dtype=torch.int32)
        if not self._has_failed():
            self._automaton.unsafe_compute_mask_ptr(mask.data_ptr(), mask.nbytes)
        return mask.zero_() if self._has_failed() else mask

    def advance(self, token_id: int) -> None:
        if not self._automaton.is_stopped():
            self._automaton.consume_token(token_id)

    def copy(self) -> "GrammarMatcher":
        """A matcher in the same state, for another answer to the request."""
        return GrammarMatcher(self._automaton.deep_copy(), self._vocab_size)

    def _has_failed(self) -> bool:
        if self._automaton.is_error():
            log.warning("event=constraint_failed error=%r", error_reason(self._automaton.get_error()))
        return self._automaton.is_error()


class GrammarCompiler:
    """Makes matchers for one model.

    vocab          width of the logits
    eos_token_ids  the model's end tokens, which are allowed after a complete text
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, vocab: int, eos_token_ids: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._vocab = vocab
        self._eos_token_ids = eos_token_ids

    @cached_property
    def llguidance_tokenizer(self) -> LLTokenizer:
        """Loaded on first use. Raises NotImplementedHere if the tokenizer does not support constraints."""
        return open_llguidance_tokenizer(self._tokenizer, self._vocab, self._eos_token_ids)

    def compile(self, constraint: Constraint, field: str = "response_format") -> GrammarMatcher:
        """A matcher for the constraint, from any thread. Raises BadRequest(field) or NotImplementedHere."""
        llguidance_tokenizer = self.llguidance_tokenizer
        try:
            text = to_grammar(constraint)
        except ValueError as error:
            raise _bad_request(constraint, field, str(error)) from None
        automaton = LLMatcher(llguidance_tokenizer, text, log_level=0, limits=LLParserLimits(**LIMITS))
        if problem := self._find_problem(automaton.deep_copy()):
            raise _bad_request(constraint, field, problem)
        return GrammarMatcher(automaton, llguidance_tokenizer.vocab_size)

    def _find_problem(self, probe: LLMatcher) -> str:
        """Why the grammar is unusable, or "". Computes two masks: some limits fail at the second token."""
        eos_bits = sum(1 << token_id for token_id in self._eos_token_ids)
        for _ in range(2):
            mask = b"" if probe.is_error() else probe.compute_bitmask()
            if probe.is_error() or not any(mask):
                error = probe.get_error() or UNSATISFIED_ERROR
                return UNSATISFIABLE_RULE if UNSATISFIED_ERROR in error else error
            other_tokens = int.from_bytes(mask, "little") & ~eos_bits
            if other_tokens:
                probe.consume_token((other_tokens & -other_tokens).bit_length() - 1)
        return ""


def _bad_request(constraint: Constraint, field: str, error: str) -> BadRequest:
    return BadRequest(field, f"is not a usable {NOUNS[constraint.kind]}: {error_reason(error)}")


def error_reason(error: str) -> str:
    """The line of llguidance's message with the reason."""
    lines = error.strip().splitlines() or ["unknown error"]
    error_line = next((line for line in lines if line.startswith("error: ")), lines[0])
    return error_line.removeprefix("error: ")[:200]
