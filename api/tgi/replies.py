"""From events to TGI's replies: whole ones, with the best of several answers, and streams.

Knows events and what is to be shown of them; neither framing nor HTTP.
"""

from typing import Any

from msgspec import UNSET, structs

from api.tgi import shapes, tokens
from api.tgi.errors import broken, failed
from api.tgi.last import LastToken
from api.tgi.requests import Shown
from api.tgi.told import Told
from inference.types import Event, Token


class WholeWriter:
    """One reply from several answers, of which it tells the most probable.

    listed  the reply is in a list, as POST / has it
    """

    failed = staticmethod(failed)
    broken = staticmethod(broken)

    def __init__(self, shown: Shown, answers: int = 1, listed: bool = False) -> None:
        self.shown = shown
        self.listed = listed
        self.answers = [Told(shown=shown) for _ in range(answers)]

    def chunk(self, event: Event) -> list[Any]:
        self.answers[event.index].add(event)
        return []

    @property
    def best(self) -> Told:
        """The first of those with the highest mean of their tokens' logprobs."""
        return max(self.answers, key=lambda answer: answer.mean_logprob)

    def whole(self) -> Any:
        best = self.best
        reply = shapes.Generation(best.output, self._details(best) if self.shown.details else UNSET)
        return [reply] if self.listed else reply

    def _details(self, best: Told) -> shapes.Details:
        losers = [loser(answer) for answer in self.answers if answer is not best]
        return shapes.Details(**structs.asdict(best.sequence()), best_of_sequences=losers or UNSET)


def loser(answer: Told) -> shapes.BestOfSequence:
    return shapes.BestOfSequence(generated_text=answer.output, **structs.asdict(answer.sequence()))


class StreamWriter(WholeWriter):
    """An event a token, from a Marked stream of one answer; the last tells the whole text."""

    def chunk(self, event: Event) -> list[Any]:
        super().chunk(event)
        match event:
            case LastToken():
                super().chunk(event.end)
                return [self._last(event)]
            case Token():
                return [self._piece(event)]
            case _:
                return []

    def _piece(self, token: Token, rest: str = "") -> shapes.StreamToken:
        return shapes.StreamToken(
            index=len(self.answers[0].tokens),
            token=tokens.generated(token, rest),
            top_tokens=tokens.top(token, self.shown.top) or UNSET,
        )

    def _last(self, event: LastToken) -> shapes.StreamToken:
        piece = self._piece(event, event.end.text)
        piece.generated_text = self.answers[0].output
        piece.details = self.answers[0].details() if self.shown.details else None
        return piece
