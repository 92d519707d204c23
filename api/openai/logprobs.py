"""Log-probabilities as completions and chats show them. Knows tokens, not where they come from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from api.logprobs import LOWEST, finite
from inference.types import Alternative, PromptToken, Token


@dataclass(frozen=True, slots=True)
class Scores:
    """How tokens are shown: with so many alternatives, by their texts or by their ids."""

    most: int
    as_ids: bool = False

    def completion(self, tokens: Sequence[Token | PromptToken], offset: int = 0) -> dict[str, Any]:
        """Lists side by side; `offset`: characters of the text before the first token."""
        words = self.words(tokens)
        return {
            "text_offset": list(accumulate(map(len, words), initial=offset))[: len(words)],
            "token_logprobs": [_own(token) for token in tokens],
            "tokens": words,
            "top_logprobs": [self._by_text(token) for token in tokens],
        }

    def chat(self, tokens: Iterable[Token]) -> dict[str, Any]:
        """A list of tokens, each with its alternatives."""
        return {"content": [self._entry(token) for token in tokens]}

    def words(self, tokens: Iterable[Token | PromptToken]) -> list[str]:
        return [self._word(token.id, spelling(token)) for token in tokens]

    def _word(self, id: int, text: str) -> str:
        return f"token_id:{id}" if self.as_ids else text

    def _by_text(self, token: Token | PromptToken) -> dict[str, float] | None:
        """The token itself, then the most probable ones. Of tokens with one text the first stays."""
        if token.logprob is None:
            return None
        by_text = {self._word(token.id, spelling(token)): finite(token.logprob)}
        for other in token.top[: self.most]:
            by_text.setdefault(self._word(other.id, other.text), finite(other.logprob))
        return by_text

    def _entry(self, token: Token) -> dict[str, Any]:
        top = [self._score(other.id, other.text, other.logprob) for other in token.top[: self.most]]
        return self._score(token.id, token.spelling, token.logprob) | {"top_logprobs": top}

    def _score(self, id: int, text: str, logprob: float | None) -> dict[str, Any]:
        """`bytes` are of the token's text, for text is all that is known of it."""
        word = self._word(id, text)
        score = LOWEST if logprob is None else finite(logprob)
        return {"token": word, "logprob": score, "bytes": list(word.encode(errors="replace"))}


def prompt_logprobs(tokens: Sequence[PromptToken], most: int) -> list[dict[str, Any] | None]:
    """Per token of the prompt: itself and the most probable ones, by their ids; nothing of the first."""
    return [None if token.logprob is None else _by_id(token, most) for token in tokens]


def _by_id(token: PromptToken, most: int) -> dict[str, Any]:
    own = Alternative(token.id, token.text, token.logprob or 0.0)
    by_id = {str(token.id): _ranked(own, token.rank)}
    for rank, other in enumerate(token.top[:most], 1):
        by_id.setdefault(str(other.id), _ranked(other, rank))
    return by_id


def _ranked(token: Alternative, rank: int) -> dict[str, Any]:
    return {"logprob": finite(token.logprob), "rank": rank, "decoded_token": token.text}


def spelling(token: Token | PromptToken) -> str:
    return token.spelling if isinstance(token, Token) else token.text


def _own(token: Token | PromptToken) -> float | None:
    return None if token.logprob is None else finite(token.logprob)


def mean(tokens: Sequence[Token]) -> float:
    """The mean logprob of an answer; of one without tokens, the lowest."""
    scores = [_own(token) or 0.0 for token in tokens]
    return sum(scores) / len(scores) if scores else LOWEST
