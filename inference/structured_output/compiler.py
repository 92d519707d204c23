"""Compiles a Constraint into a GrammarMatcher with llguidance. Knows no sequences and no logits.

Compiling takes milliseconds, a mask about 50 us, and reading the vocabulary about a second, once. LIMITS
bounds the costs of a request.
"""

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable
from functools import cached_property

import torch
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from transformers import PreTrainedTokenizerBase

from inference.errors import BadRequest
from inference.process.rust_panic import raises_panics
from inference.structured_output.grammar_checker import LIMITS, GrammarChecker
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
QUICK_S = 0.02  # compiling takes no longer in the thread of the request
MAX_KNOWN = 1000  # checked grammars
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

    @raises_panics
    def token_bitmask(self) -> torch.Tensor:
        """The allowed tokens, int32 (ceil(vocab / 32),): see Matcher in inference.engine.sequence."""
        mask = torch.zeros((self._vocab_size + 31) // 32, dtype=torch.int32)
        if not self._has_failed():
            self._automaton.unsafe_compute_mask_ptr(mask.data_ptr(), mask.nbytes)
        return mask.zero_() if self._has_failed() else mask

    @raises_panics
    def advance(self, token_id: int) -> None:
        if not self._automaton.is_stopped():
            self._automaton.consume_token(token_id)

    @raises_panics
    def copy(self) -> "GrammarMatcher":
        """A matcher in the same state, for another answer to the request."""
        return GrammarMatcher(self._automaton.deep_copy(), self._vocab_size)

    @property
    def failure(self) -> str:
        """As Matcher.failure: a limit that is exceeded, or a dead end, where llguidance found no way on."""
        return error_reason(self._automaton.get_error()) if self._automaton.is_error() else ""

    def _has_failed(self) -> bool:
        if failure := self.failure:
            log.warning("event=constraint_failed error=%r", failure)
        return bool(failure)


class GrammarCompiler:
    """Makes matchers for one model.

    vocab          width of the logits
    eos_token_ids  the model's end tokens, which are allowed after a complete text
    checker        finds out what an unknown grammar costs, in one thread; None: no grammar is checked
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        vocab: int,
        eos_token_ids: frozenset[int],
        checker: GrammarChecker | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._vocab = vocab
        self._eos_token_ids = eos_token_ids
        self._checker = checker
        self._compile_seconds: dict[bytes, float] = {}  # CPU time of checked grammars, by digest

    @cached_property
    def llguidance_tokenizer(self) -> LLTokenizer:
        """Loaded on first use. Raises NotImplementedHere if the tokenizer does not support constraints."""
        return open_llguidance_tokenizer(self._tokenizer, self._vocab, self._eos_token_ids)

    def is_quick(self, constraint: Constraint) -> bool:
        """Whether the constraint has been compiled after a check, within QUICK_S of CPU time."""
        return self._compile_seconds.get(digest(constraint), math.inf) < QUICK_S

    @raises_panics
    def compile(
        self, constraint: Constraint, field: str = "", is_abandoned: Callable[[], bool] | None = None
    ) -> GrammarMatcher:
        """A matcher for the constraint. Raises BadRequest or NotImplementedHere.

        field         the field to name in the error; by default constraint.field_name
        is_abandoned  check the grammar's costs first, until this returns True: raises CheckAbandoned.
                      None: the grammar is not checked
        """
        llguidance_tokenizer = self.llguidance_tokenizer
        started_at = time.thread_time()
        try:
            text = to_grammar(constraint)
            if self._checker is not None and is_abandoned is not None:
                self._checker.check(text, is_abandoned)
        except ValueError as error:
            raise _bad_request(constraint, field or constraint.field_name, str(error)) from None
        automaton = LLMatcher(llguidance_tokenizer, text, log_level=0, limits=LLParserLimits(**LIMITS))
        if problem := self._find_problem(automaton.deep_copy()):
            raise _bad_request(constraint, field or constraint.field_name, problem)
        if is_abandoned is not None:
            self._remember(constraint, time.thread_time() - started_at)
        return GrammarMatcher(automaton, llguidance_tokenizer.vocab_size)

    def _remember(self, constraint: Constraint, seconds: float) -> None:
        if len(self._compile_seconds) >= MAX_KNOWN:
            self._compile_seconds.clear()
        if key := digest(constraint):
            self._compile_seconds[key] = seconds

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


def digest(constraint: Constraint) -> bytes:
    """Equal for equal constraints; b"" for one that is no JSON, and therefore never checked successfully."""
    try:
        text = json.dumps([constraint.kind, constraint.spec])
    except (TypeError, ValueError, RecursionError):
        return b""
    return hashlib.sha256(text.encode()).digest()


def _bad_request(constraint: Constraint, field: str, error: str) -> BadRequest:
    return BadRequest(field, f"is not a usable {NOUNS[constraint.kind]}: {error_reason(error)}")


def error_reason(error: str) -> str:
    """The line of llguidance's message with the reason."""
    lines = error.strip().splitlines() or ["unknown error"]
    error_line = next((line for line in lines if line.startswith("error: ")), lines[0])
    return error_line.removeprefix("error: ")[:200]
