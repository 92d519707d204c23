"""Llama Stack's words for what an answer has come to; the same for every generation of the protocol."""

from collections.abc import Sequence
from typing import Any

from api.logprobs import finite
from api.said import Call, Said
from inference.types import Token

Scores = list[dict[str, Any]]


def complete_calls(said: Said) -> list[Call]:
    return [call for call in said.calls.values() if call.done]


def stop_reason(said: Said) -> str:
    """`end_of_message` is a partial answer: it waits for a tool, or its deadline or we cut it off."""
    reason = said.end.reason if said.end else "cancelled"
    if reason == "length":
        return "out_of_tokens"
    return "end_of_turn" if reason == "stop" and not complete_calls(said) else "end_of_message"


def metrics(said: Said) -> list[dict[str, Any]]:
    prompt, completion = said.begun.prompt_tokens, said.ended.tokens
    counts = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    return [{"metric": name, "value": count, "unit": None} for name, count in counts.items()]


def scores(tokens: Sequence[Token]) -> Scores:
    """The log-probabilities of each token and its alternatives by their texts, where there are any."""
    return [{"logprobs_by_token": _by_text(token)} for token in tokens if token.logprob is not None]


def _by_text(token: Token) -> dict[str, float]:
    """Different tokens may have one text: the chosen token's entry is kept, then the most probable's."""
    text = next((other.text for other in token.top if other.id == token.id), token.text)
    assert token.logprob is not None, "told only of tokens that have one"
    by_text = {text: finite(token.logprob)}
    for other in token.top:
        by_text.setdefault(other.text, finite(other.logprob))
    return by_text
