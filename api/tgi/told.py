"""What one answer has come to, folded from its events, and how TGI tells it.

Knows events and what is to be shown of them; not how answers are put into a reply.
"""

from dataclasses import dataclass, field

from msgspec import UNSET

from api.tgi import shapes, tokens
from api.tgi.requests import Shown
from inference.types import Event, Finished, Started, Token


@dataclass(slots=True)
class Told:
    shown: Shown
    start: Started = field(default_factory=lambda: Started(0, 0, 0))
    said: list[Token] = field(default_factory=list)
    end: Finished = field(default_factory=lambda: Finished(0, "cancelled"))

    def add(self, event: Event) -> None:
        match event:
            case Started():
                self.start = event
            case Token():
                self.said.append(event)
            case Finished():
                self.end = event

    @property
    def mean_logprob(self) -> float:
        return sum(token.logprob or 0.0 for token in self.said) / max(1, len(self.said))

    @property
    def text(self) -> str:
        return "".join((self.shown.prompt, *(token.text for token in self.said), self.end.text))

    @property
    def finish_reason(self) -> shapes.FinishReason:
        """The limit goes before the model's own end, and that before a stop string. What the server cut short
        has come to a limit, too."""
        end, limit = self.end, self.shown.limit
        if end.reason != "stop" or (limit is not None and end.tokens >= limit):
            return "length"
        return "eos_token" if end.stop is None else "stop_sequence"

    def sequence(self) -> shapes.Sequence:
        prefill = self.start.prompt if self.shown.prefill else ()
        top = [tokens.top(token, self.shown.top) for token in self.said] if self.shown.top else []
        return shapes.Sequence(
            finish_reason=self.finish_reason,
            generated_tokens=self.end.tokens,
            seed=self.end.seed,
            prefill=list(map(tokens.prefill, prefill)),
            tokens=self._tokens(),
            top_tokens=top or UNSET,
        )

    def details(self) -> shapes.StreamDetails:
        end = self.end
        return shapes.StreamDetails(self.finish_reason, end.tokens, end.seed, self.start.prompt_tokens)

    def _tokens(self) -> list[shapes.Token]:
        """What was held back to the end belongs to the last one."""
        rests = ["" for _ in self.said[1:]] + [self.end.text]
        return [tokens.generated(token, rest) for token, rest in zip(self.said, rests, strict=False)]
