"""The grammar of an answer that reasons first: it begins behind the reasoning."""

from collections.abc import Iterable, Set

import pytest
import torch

from inference.structured_output import GrammarCompiler, MatcherAfterReasoning, ReasoningTokens
from inference.types import Constraint
from tests.structured_output.conftest import make_tokenizer

VOCAB, EOS, OPEN, CLOSE = 70, 2, 31, 64
TOKENS = ReasoningTokens(frozenset([OPEN]), frozenset([CLOSE]))


class OnlyTokens:
    """A matcher that allows its tokens in turn."""

    failure = ""

    def __init__(self, *token_ids: int) -> None:
        self.token_ids = list(token_ids)

    def token_bitmask(self) -> torch.Tensor:
        mask = torch.zeros(3, dtype=torch.int32)
        mask[self.token_ids[0] // 32] = 1 << self.token_ids[0] % 32
        return mask

    def advance(self, token_id: int) -> None:
        assert token_id == self.token_ids.pop(0)


def matcher(*, in_reasoning: bool, may_reason: bool = True) -> MatcherAfterReasoning:
    return MatcherAfterReasoning(
        OnlyTokens(7, 8, EOS),
        TOKENS,
        vocab=VOCAB,
        eos_token_ids=[EOS],
        in_reasoning=in_reasoning,
        may_reason=may_reason,
    )


def allowed_tokens(matcher: MatcherAfterReasoning) -> Set[int]:
    mask = matcher.token_bitmask()
    assert mask is not None
    return {token_id for token_id in range(VOCAB) if int(mask[token_id // 32]) >> token_id % 32 & 1}


def advance(matcher: MatcherAfterReasoning, token_ids: Iterable[int]) -> MatcherAfterReasoning:
    for token_id in token_ids:
        assert token_id in allowed_tokens(matcher)
        matcher.advance(token_id)
    return matcher


def test_every_token_but_the_end_may_come_in_the_reasoning() -> None:
    assert allowed_tokens(matcher(in_reasoning=True)) == set(range(VOCAB)) - {EOS}


def test_the_grammar_begins_behind_the_end_of_the_reasoning() -> None:
    reasoned = advance(matcher(in_reasoning=True), [5, OPEN, 69, CLOSE])
    assert allowed_tokens(reasoned) == {7}
    assert allowed_tokens(advance(reasoned, [7])) == {8}


def test_the_first_token_may_open_the_reasoning() -> None:
    assert allowed_tokens(matcher(in_reasoning=False)) == {7, OPEN}
    assert allowed_tokens(advance(matcher(in_reasoning=False), [OPEN, 5, CLOSE])) == {7}
    assert allowed_tokens(advance(matcher(in_reasoning=False), [7])) == {8}
    assert allowed_tokens(matcher(in_reasoning=False, may_reason=False)) == {7}


def test_reasoning_is_not_opened_twice() -> None:
    assert allowed_tokens(advance(matcher(in_reasoning=True), [CLOSE])) == {7}


@pytest.mark.parametrize("in_reasoning", [True, False])
def test_the_grammar_of_a_schema_is_the_same_behind_reasoning(in_reasoning: bool) -> None:
    tokenizer = make_tokenizer("byte_level")
    opening, closing = tokenizer.convert_tokens_to_ids(["<s>", "<end>"])
    eos_token_ids, vocab = frozenset([tokenizer.convert_tokens_to_ids("</s>")]), len(tokenizer)
    compiler = GrammarCompiler(tokenizer, vocab, eos_token_ids)
    plain = compiler.compile(Constraint("json_schema", {"enum": ["a", "b"]}))
    reasoned = MatcherAfterReasoning(
        plain.copy(),
        ReasoningTokens(frozenset([opening]), frozenset([closing])),
        vocab=vocab,
        eos_token_ids=eos_token_ids,
        in_reasoning=in_reasoning,
        may_reason=True,
    )
    for token_id in [opening, *tokenizer.encode("not JSON"), closing]:
        reasoned.advance(token_id)
    for token_id in tokenizer.encode('"a"', add_special_tokens=False):
        mask, expected = reasoned.token_bitmask(), plain.token_bitmask()
        assert mask is not None and torch.equal(mask, expected)
        reasoned.advance(token_id)
        plain.advance(token_id)
    assert reasoned.failure == ""
