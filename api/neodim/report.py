"""From events to Neodim's report, and to the lines of a streamed answer.

Streaming is this server's addition: {"index", "text", "stopped"} for each token of each sequence, then the
report as it is without streaming. `stopped` marks the token that completes a stop string, and all behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from api.neodim.errors import broken, failed
from api.neodim.gpus import Gpus
from api.neodim.penalty import Extent, extent
from api.neodim.requests import Asked
from api.neodim.stops import Hit, Watch
from api.neodim.texts import Texts
from inference.types import Event, Finished, Token

NOWHERE = Extent(0, ())


@dataclass(slots=True)
class Written:
    """What one sequence has come to."""

    ids: list[int] = field(default_factory=list)
    text: str = ""


class Report:
    """A Writer. `watches` know where each sequence stops."""

    failed = staticmethod(failed)
    broken = staticmethod(broken)

    def __init__(self, asked: Asked, texts: Texts, watches: Sequence[Watch], gpus: Gpus) -> None:
        self.asked = asked
        self.texts = texts
        self.watches = watches
        self.gpus = gpus
        self.written = [Written() for _ in watches]
        self.unfinished = len(watches)

    def chunk(self, event: Event) -> list[Any]:
        match event:
            case Token():
                self.gpus.sample()
                self.written[event.index].ids.append(event.id)
                return [self._line(event)]
            case Finished():
                self.unfinished -= 1
                lines = [self._line(event)] if event.text else []
                return lines if self.unfinished else [*lines, self._end()]
            case _:
                return []

    def whole(self) -> dict[str, Any]:
        return self.report

    def _line(self, event: Token | Finished) -> dict[str, Any]:
        written, watch = self.written[event.index], self.watches[event.index]
        written.text += event.text
        behind = isinstance(event, Finished) or len(written.ids) >= watch.tokens
        return {"index": event.index, "text": event.text, "stopped": behind and watch.hit is not None}

    def _end(self) -> dict[str, Any]:
        self.gpus.sample(last=True)
        self.report = self._input() | self._penalty() | self._output() | {"gpus": self.gpus.report()}
        return self.report

    @property
    def generated(self) -> int:
        return max(len(written.ids) for written in self.written)

    def _input(self) -> dict[str, Any]:
        given = self.asked.given
        return {
            "original_input_tokens_count": given.fixed + given.original,
            "used_input_tokens_count": len(given.ids),
            "preamble": given.preamble,
            "preamble_tokens_count": given.fixed,
            "used_prompt": given.prompt,
            "original_prompt_tokens_count": given.original,
            "used_prompt_tokens_count": len(given.prompt_ids),
        }

    def _penalty(self) -> dict[str, Any]:
        longest = max(self.written, key=lambda written: len(written.ids))
        start, end = self._extent([]), self._extent(longest.ids[:-1])
        return {
            "repetition_penalty_text_at_start": self.texts.decode(start.ids),
            "used_repetition_penalty_tokens_count_at_start": len(start.ids),
            "used_repetition_penalty_range_at_start": start.span,
            "used_repetition_penalty_tokens_count_at_end": len(end.ids),
            "used_repetition_penalty_range_at_end": end.span,
        }

    def _extent(self, generated: list[int]) -> Extent:
        """At the step after `generated`; nowhere, where there was no step."""
        window = self.asked.window
        return extent(window, generated) if window and self.generated else NOWHERE

    def _output(self) -> dict[str, Any]:
        told = [self._sequence(*each) for each in zip(self.written, self.watches, strict=True)]
        return {
            "generated_tokens_count": self.generated,
            "output_tokens_count": len(self.asked.given.ids) + self.generated,
            "seed": self.asked.seed,
            "sequences": told,
        }

    def _sequence(self, written: Written, watch: Watch) -> dict[str, Any]:
        given = self.asked.given
        hit = watch.hit or Hit(len(written.text), "", "")
        return {
            "generated_text": written.text[: hit.start],
            "output_text": given.preamble + given.prompt + written.text,
            "stop_string": hit.stop,
            "stop_string_match": hit.match,
            "trimmed_tail": written.text[hit.start + len(hit.match) :],
            # The penalty came before the last token was chosen, so it never saw that.
            "repetition_penalty_text_at_end": self.texts.decode(self._extent(written.ids[:-1]).ids),
        }
