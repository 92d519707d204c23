"""From events to Neodim's report, and to the lines of a streamed answer.

Streaming is this server's addition: a Line for each token of each sequence, and at the end the report, as it
is without streaming.
"""

from collections.abc import Sequence
from typing import Any

from api.neodim.answers import Line, Report, Written
from api.neodim.errors import broken, failed
from api.neodim.gpus import Gpus
from api.neodim.penalty import Extent, extent
from api.neodim.requests import Asked
from api.neodim.stops import Hit, Watch
from api.neodim.texts import Texts
from inference.types import Event, Finished, Token

NOWHERE = Extent(0, ())


class ReportWriter:
    """A Writer. `watches` know where each sequence stops."""

    failed = staticmethod(failed)
    broken = staticmethod(broken)

    def __init__(self, asked: Asked, texts: Texts, watches: Sequence[Watch], gpus: Gpus) -> None:
        self.asked = asked
        self.texts = texts
        self.watches = watches
        self.gpus = gpus
        self.ids: list[list[int]] = [[] for _ in watches]
        self.said = [""] * len(watches)
        self.unfinished = len(watches)

    def chunk(self, event: Event) -> list[Any]:
        match event:
            case Token():
                self.gpus.sample()
                self.ids[event.index].append(event.id)
                return [self._line(event)]
            case Finished():
                self.unfinished -= 1
                lines: list[Any] = [self._line(event)] if event.text else []
                return lines if self.unfinished else [*lines, self._end()]
            case _:
                return []

    def whole(self) -> Report:
        return self.report

    def _line(self, event: Token | Finished) -> Line:
        index, watch = event.index, self.watches[event.index]
        self.said[index] += event.text
        behind = isinstance(event, Finished) or len(self.ids[index]) >= watch.tokens
        return Line(index, event.text, behind and watch.hit is not None)

    def _end(self) -> Report:
        self.gpus.sample(last=True)
        given = self.asked.given
        longest = max(self.ids, key=len)
        start, end = self._extent([]), self._extent(longest[:-1])
        self.report = Report(
            original_input_tokens_count=given.fixed + given.original,
            used_input_tokens_count=len(given.ids),
            preamble=given.preamble,
            preamble_tokens_count=given.fixed,
            used_prompt=given.prompt,
            original_prompt_tokens_count=given.original,
            used_prompt_tokens_count=len(given.prompt_ids),
            repetition_penalty_text_at_start=self.texts.decode(start.ids),
            used_repetition_penalty_tokens_count_at_start=len(start.ids),
            used_repetition_penalty_range_at_start=start.span,
            used_repetition_penalty_tokens_count_at_end=len(end.ids),
            used_repetition_penalty_range_at_end=end.span,
            generated_tokens_count=len(longest),
            output_tokens_count=len(given.ids) + len(longest),
            sequences=[self._written(index) for index in range(len(self.watches))],
            gpus=self.gpus.report(),
            seed=self.asked.seed,
        )
        return self.report

    def _written(self, index: int) -> Written:
        text, given = self.said[index], self.asked.given
        hit = self.watches[index].hit or Hit(len(text), "", "")
        return Written(
            generated_text=text[: hit.start],
            output_text=given.preamble + given.prompt + text,
            stop_string=hit.stop,
            stop_string_match=hit.match,
            trimmed_tail=text[hit.start + len(hit.match) :],
            # The penalty came before the last token was chosen, and never saw that.
            repetition_penalty_text_at_end=self.texts.decode(self._extent(self.ids[index][:-1]).ids),
        )

    def _extent(self, generated: list[int]) -> Extent:
        """At the step after `generated`; nowhere, where there was no step."""
        window = self.asked.window
        return extent(window, generated) if window and any(self.ids) else NOWHERE
