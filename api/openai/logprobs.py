"""Converts the logprobs of tokens to the structs of completions and chat completions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from api.accumulator import LOWEST_LOGPROB, finite_logprob
from api.openai.protocol.chat import ChatLogprob, ChatLogprobs, ChatLogprobsContent
from api.openai.protocol.completion import CompletionLogprobs
from api.openai.protocol.generation import RankedToken
from inference.events import PromptToken, Token, TopLogprob


@dataclass(frozen=True, slots=True)
class LogprobsFormatter:
    """Writes the logprobs of one request.

    num_top        alternatives to report for each token
    tokens_as_ids  name tokens as token_id:123 in place of their text
    """

    num_top: int
    tokens_as_ids: bool = False

    def completion_logprobs(
        self, tokens: Sequence[Token | PromptToken], offset: int = 0
    ) -> CompletionLogprobs:
        """`offset` is the index of the first token's text in the choice's text."""
        texts = self.token_texts(tokens)
        return CompletionLogprobs(
            text_offset=list(accumulate(map(len, texts), initial=offset))[: len(texts)],
            token_logprobs=[_own_logprob(token) for token in tokens],
            tokens=texts,
            top_logprobs=[self._top_by_text(token) for token in tokens],
        )

    def chat_logprobs(self, tokens: Iterable[Token]) -> ChatLogprobs:
        return ChatLogprobs([self._chat_entry(token) for token in tokens])

    def token_texts(self, tokens: Iterable[Token | PromptToken]) -> list[str]:
        return [self._token_text(token.id, spelling(token)) for token in tokens]

    def _token_text(self, id: int, text: str) -> str:
        return f"token_id:{id}" if self.tokens_as_ids else text

    def _top_by_text(self, token: Token | PromptToken) -> dict[str, float | None] | None:
        """Text -> logprob: the token itself, then its alternatives. The first token with a text is kept."""
        if token.logprob is None:
            return None
        text = self._token_text(token.id, spelling(token))
        by_text: dict[str, float | None] = {text: finite_logprob(token.logprob)}
        for other in token.top_logprobs[: self.num_top]:
            by_text.setdefault(self._token_text(other.id, other.text), finite_logprob(other.logprob))
        return by_text

    def _chat_entry(self, token: Token) -> ChatLogprobsContent:
        top = [
            ChatLogprob(*self._chat_logprob(other.id, other.text, other.logprob))
            for other in token.top_logprobs[: self.num_top]
        ]
        return ChatLogprobsContent(*self._chat_logprob(token.id, token.spelling, token.logprob), top)

    def _chat_logprob(self, id: int, text: str, logprob: float | None) -> tuple[str, float, list[int]]:
        """The fields of ChatLogprob; the bytes are the UTF-8 of the token's text."""
        token_text = self._token_text(id, text)
        value = LOWEST_LOGPROB if logprob is None else finite_logprob(logprob)
        return token_text, value, list(token_text.encode(errors="replace"))


def prompt_logprobs(tokens: Sequence[PromptToken], num_top: int) -> list[dict[str, RankedToken] | None]:
    """For each prompt token: the token and its alternatives, by id. None for the first: it has no logprob."""
    return [None if token.logprob is None else _by_id(token, num_top) for token in tokens]


def _by_id(token: PromptToken, num_top: int) -> dict[str, RankedToken]:
    chosen_token = TopLogprob(token.id, token.text, token.logprob or 0.0)
    by_id = {str(token.id): _ranked_entry(chosen_token, token.rank)}
    for rank, other in enumerate(token.top_logprobs[:num_top], 1):
        by_id.setdefault(str(other.id), _ranked_entry(other, rank))
    return by_id


def _ranked_entry(token: TopLogprob, rank: int) -> RankedToken:
    return RankedToken(finite_logprob(token.logprob), rank, token.text)


def spelling(token: Token | PromptToken) -> str:
    return token.spelling if isinstance(token, Token) else token.text


def _own_logprob(token: Token | PromptToken) -> float | None:
    return None if token.logprob is None else finite_logprob(token.logprob)


def mean_logprob(tokens: Sequence[Token]) -> float:
    """The mean logprob of the tokens; LOWEST_LOGPROB if there are none."""
    logprobs = [_own_logprob(token) or 0.0 for token in tokens]
    return sum(logprobs) / len(logprobs) if logprobs else LOWEST_LOGPROB
