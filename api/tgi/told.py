"""What one answer has come to, and how TGI tells it.

Knows events and what is to be shown of them; not how answers are put into a reply.
"""

from dataclasses import dataclass, field

from msgspec import UNSET

from api.said import Said
from api.tgi import shapes, tokens
from api.tgi.requests import Shown


@dataclass(slots=True)
class Told(Said):
    shown: Shown = field(kw_only=True)

    @property
    def mean_logprob(self) -> float:
        return sum(token.logprob or 0.0 for token in self.tokens) / max(1, len(self.tokens))

    @property
    def output(self) -> str:
        return self.shown.prompt + self.text

    @property
    def finish_reason(self) -> shapes.FinishReason:
        """The limit goes before the model's own end, and that before a stop string. What the server cut short
        has come to a limit, too."""
        end, limit = self.ended, self.shown.limit
        if end.reason != "stop" or (limit is not None and end.tokens >= limit):
            return "length"
        return "eos_token" if end.stop is None else "stop_sequence"

    def sequence(self) -> shapes.Sequence:
        prefill = self.begun.prompt if self.shown.prefill else ()
        top = [tokens.top(token, self.shown.top) for token in self.tokens] if self.shown.top else []
        return shapes.Sequence(
            finish_reason=self.finish_reason,
            generated_tokens=self.ended.tokens,
            seed=self.ended.seed,
            prefill=list(map(tokens.prefill, prefill)),
            tokens=self._tokens(),
            top_tokens=top or UNSET,
        )

    def details(self) -> shapes.StreamDetails:
        end = self.ended
        return shapes.StreamDetails(self.finish_reason, end.tokens, end.seed, self.begun.prompt_tokens)

    def _tokens(self) -> list[shapes.Token]:
        """What was held back to the end belongs to the last one."""
        rests = ["" for _ in self.tokens[1:]] + [self.ended.text]
        return [tokens.generated(token, rest) for token, rest in zip(self.tokens, rests, strict=False)]
