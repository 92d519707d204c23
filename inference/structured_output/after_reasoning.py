"""A matcher whose grammar begins behind the reasoning of an answer, as vLLM's structured output does.

Knows the tokens that open and close reasoning, and bitmasks; knows no grammar.
"""

from collections.abc import Collection
from dataclasses import dataclass

import torch

from inference.engine.sequence import Matcher

WORD_BITS = 32


@dataclass(frozen=True, slots=True)
class ReasoningTokens:
    """The tokens that mark reasoning. start_ids: of which one may open it; end_ids: of which one closes it"""

    start_ids: frozenset[int]
    end_ids: frozenset[int]


class MatcherAfterReasoning:
    """A Matcher of one answer.

    matcher        of the grammar
    vocab          width of the logits
    eos_token_ids  the model's end tokens, which may not come in the reasoning
    in_reasoning   the prompt has opened the reasoning
    may_reason     the answer's first token may open it
    """

    def __init__(
        self,
        matcher: Matcher,
        tokens: ReasoningTokens,
        *,
        vocab: int,
        eos_token_ids: Collection[int],
        in_reasoning: bool,
        may_reason: bool,
    ) -> None:
        self._matcher = matcher
        self._tokens = tokens
        self._in_reasoning = in_reasoning
        self._may_reason = may_reason and not in_reasoning
        self._all_but_eos = torch.full(((vocab + WORD_BITS - 1) // WORD_BITS,), -1, dtype=torch.int32)
        for token_id in eos_token_ids:
            self._all_but_eos[token_id // WORD_BITS] &= ~bit(token_id)

    def token_bitmask(self) -> torch.Tensor | None:
        if self._in_reasoning:
            return self._all_but_eos
        mask = self._matcher.token_bitmask()
        if mask is not None and self._may_reason:
            for token_id in self._tokens.start_ids:
                mask[token_id // WORD_BITS] |= bit(token_id)
        return mask

    def advance(self, token_id: int) -> None:
        if self._in_reasoning:
            self._in_reasoning = token_id not in self._tokens.end_ids
        elif self._may_reason and token_id in self._tokens.start_ids:
            self._in_reasoning = True
        else:
            self._matcher.advance(token_id)
        self._may_reason = False

    @property
    def failure(self) -> str:
        return self._matcher.failure


def bit(token_id: int) -> int:
    """The bit of the token in its word, as a signed number of 32 bits."""
    value = 1 << token_id % WORD_BITS
    return value - (1 << WORD_BITS) if value >> (WORD_BITS - 1) else value
