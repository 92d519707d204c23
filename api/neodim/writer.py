"""Converts events to Neodim's report, and to the lines of a streamed response.

Streaming is an addition of this server: a StreamLine for each token of each sequence, then the report.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from api.accumulator import cut_reason
from api.neodim.errors import error_before_start, error_in_stream
from api.neodim.gpu_report import GpuSampler
from api.neodim.parse import ParsedRequest
from api.neodim.penalized_texts import PenalizedTexts
from api.neodim.protocol import Report, SequenceReport, StreamLine
from api.neodim.stop_strings import StopMatch, StopTracker
from inference.events import Event, Finished, Token


class ReportWriter:
    """A Writer. `trackers` has one tracker per sequence, which knows where the sequence stops."""

    error_before_start = staticmethod(error_before_start)
    error_in_stream = staticmethod(error_in_stream)

    def __init__(
        self,
        request: ParsedRequest,
        penalized: PenalizedTexts,
        trackers: Sequence[StopTracker],
        gpus: GpuSampler,
    ) -> None:
        self.request = request
        self.penalized = penalized
        self.trackers = trackers
        self.gpus = gpus
        self.num_generated = [0] * len(trackers)
        self.generated_texts = [""] * len(trackers)
        self.num_unfinished = len(trackers)
        self.stop_reason: str | UnsetType = UNSET

    def chunk(self, event: Event) -> list[Any]:
        match event:
            case Token():
                self.gpus.sample()
                self.num_generated[event.index] += 1
                return [self._stream_line(event)]
            case Finished():
                self.num_unfinished -= 1
                self._add_stop_reason(event)
                lines: list[Any] = [self._stream_line(event)] if event.text else []
                return lines if self.num_unfinished else [*lines, self._build_report()]
            case _:
                return []

    def full_response(self) -> Report:
        return self.report

    def _add_stop_reason(self, end: Finished) -> None:
        """A sequence that has stopped by itself is only continued until all have stopped."""
        if self.trackers[end.index].stop_match is None:
            self.stop_reason = cut_reason(end) or self.stop_reason

    def _stream_line(self, event: Token | Finished) -> StreamLine:
        index, tracker = event.index, self.trackers[event.index]
        self.generated_texts[index] += event.text
        is_behind_stop = isinstance(event, Finished) or self.num_generated[index] >= tracker.num_tokens
        return StreamLine(index, event.text, is_behind_stop and tracker.stop_match is not None)

    def _build_report(self) -> Report:
        self.gpus.sample(last=True)
        model_input = self.request.model_input
        num_generated = max(self.num_generated)
        start, end = self.penalized.start, self.penalized.end
        self.report = Report(
            original_input_tokens_count=model_input.num_fixed_tokens + model_input.num_original_tokens,
            used_input_tokens_count=len(model_input.token_ids),
            preamble=model_input.preamble,
            preamble_tokens_count=model_input.num_fixed_tokens,
            used_prompt=model_input.prompt,
            original_prompt_tokens_count=model_input.num_original_tokens,
            used_prompt_tokens_count=len(model_input.prompt_ids),
            repetition_penalty_text_at_start=self.penalized.start_text,
            used_repetition_penalty_tokens_count_at_start=len(start.ids),
            used_repetition_penalty_range_at_start=start.window_length,
            used_repetition_penalty_tokens_count_at_end=len(end.ids),
            used_repetition_penalty_range_at_end=end.window_length,
            generated_tokens_count=num_generated,
            output_tokens_count=len(model_input.token_ids) + num_generated,
            sequences=[self._sequence_report(index) for index in range(len(self.trackers))],
            gpus=self.gpus.report(),
            seed=self.request.seed,
            stop_reason=self.stop_reason,
        )
        return self.report

    def _sequence_report(self, index: int) -> SequenceReport:
        text, model_input = self.generated_texts[index], self.request.model_input
        stop_match = self.trackers[index].stop_match or StopMatch(len(text), "", "")
        return SequenceReport(
            generated_text=text[: stop_match.start],
            output_text=model_input.preamble + model_input.prompt + text,
            stop_string=stop_match.stop,
            stop_string_match=stop_match.match,
            trimmed_tail=text[stop_match.start + len(stop_match.match) :],
            repetition_penalty_text_at_end=self.penalized.end_texts[index],
        )
