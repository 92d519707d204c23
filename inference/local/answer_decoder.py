"""Turns the token ids that the engine outputs for one answer into events with text.

Each token passes the detokenizer, the stop strings and the parser of reasoning and tool calls, in this order.
Knows no threads and no queues.
"""

from typing import Literal, cast

from inference.engine.step_output import StepOutput, TopLogprobs
from inference.events import Event, Finished, FinishReason, PromptToken, Started, Token, TopLogprob
from inference.local.answer_parser import AnswerParser, ParsedText
from inference.metrics import AnswerStats
from inference.text.detokenizer import Detokenizer
from inference.text.stop_strings import StopMatcher, TokenEndMatcher
from inference.text.vocabulary import Vocabulary
from inference.types import GenerationRequest


class AnswerDecoder:
    """Decodes the answer `index` of a request.

    request        the request, resolved for the engine (see Sequence.request)
    eos_token_ids  the model's end tokens, which Finished.stop does not report
    stop_matcher   None: the request has no stop strings
    parser         None: the answer is text alone, without reasoning and tool calls
    answer_stats   records the answer's progress for the metrics
    """

    def __init__(
        self,
        index: int,
        request: GenerationRequest,
        *,
        detokenizer: Detokenizer,
        stop_matcher: StopMatcher | TokenEndMatcher | None,
        parser: AnswerParser | None,
        eos_token_ids: frozenset[int],
        answer_stats: AnswerStats,
    ) -> None:
        self.index = index
        self.request = request
        self.prompt_token_ids = request.prompt_token_ids
        self.eos_token_ids = eos_token_ids
        self.finished = False
        self.num_tokens = 0
        self._detokenizer = detokenizer
        self._stop_matcher = stop_matcher
        self._parser = parser
        self._num_reasoning_tokens = 0
        self._answer_stats = answer_stats

    def process(self, output: StepOutput) -> list[Event]:
        """The events of an output. Tokens behind the end of the answer yield no events."""
        events: list[Event] = []
        if output.num_cached_tokens is not None:
            events.append(self._started_event(output))
        for position in range(len(output.token_ids)):
            events += self._decode_token(output, position)
            if self.finished:
                return events
        if output.finish_reason:
            events += self._finish_from_engine(output)
        return events

    def abandon(self, reason: Literal["cancelled", "error"]) -> None:
        """End the answer early, without a Finished event."""
        self.finished = True
        self._answer_stats.record_finish(reason)

    def _started_event(self, output: StepOutput) -> Started:
        num_cached_tokens = output.num_cached_tokens or 0
        self._answer_stats.record_start(output.queue_time_s, num_cached_tokens)
        vocabulary = self._detokenizer.vocabulary
        scored_ids = zip(self.prompt_token_ids, output.prompt_logprobs, strict=False)
        prompt_tokens = tuple(
            PromptToken(
                token_id,
                vocabulary.text(token_id),
                prompt_logprob.logprob,
                prompt_logprob.rank,
                to_top_logprobs(vocabulary, prompt_logprob.top_logprobs),
                prompt_logprob.place,
            )
            for token_id, prompt_logprob in scored_ids
        )
        return Started(
            self.index,
            prompt_tokens=len(self.prompt_token_ids),
            cached_tokens=num_cached_tokens,
            prompt_token_ids=self.prompt_token_ids,
            prompt_logprobs=prompt_tokens,
            queue_time_s=output.queue_time_s,
        )

    def _decode_token(self, output: StepOutput, position: int) -> list[Event]:
        token_id, vocabulary = output.token_ids[position], self._detokenizer.vocabulary
        self.num_tokens += 1
        self._answer_stats.record_token()
        is_end = output.finish_reason == "stop" and position == len(output.token_ids) - 1
        is_special = is_end or token_id in vocabulary.special_ids
        text_before = ""
        if self._parser and self._stop_matcher and is_special:
            # A special token may start reasoning or a tool call: emit the text held back before it first.
            text_before = self._stop_matcher.flush()
        text, stop_string = "", ""
        if not is_end or self._keeps_stop_token(token_id):
            text = self._detokenizer.feed(token_id)
        if self._stop_matcher and self.num_tokens > self.request.min_tokens:
            is_eos = is_end and token_id in self.eos_token_ids  # takes precedence over stop strings
            special_name = vocabulary.text(token_id) if is_special and not is_eos else ""
            text, stop_string = self._stop_matcher.feed(text, special_name)
        parsed = ParsedText(text)
        if self._parser:
            tag = vocabulary.text(token_id) if is_special and not is_end else None
            parsed = self._parse(self._parser, text_before, text, tag)
        token = Token(
            self.index,
            token_id,
            parsed.text,
            output.logprobs[position] if output.logprobs else None,
            to_top_logprobs(vocabulary, output.top_logprobs[position]) if output.top_logprobs else (),
            is_special,
            vocabulary.text(token_id),
            parsed.reasoning,
        )
        if self._parser and self._parser.is_complete:
            return [token, *parsed.call_deltas, self._finish("stop")]
        if stop_string:
            return [token, *parsed.call_deltas, *self._finish_with("stop", "", stop_string)]
        return [token, *parsed.call_deltas]

    def _keeps_stop_token(self, token_id: int) -> bool:
        """Whether the text includes the token that ends the answer; an end token also needs show_special."""
        return self.request.include_stop_str_in_output and (
            self.request.show_special or token_id not in self.eos_token_ids
        )

    def _parse(
        self, parser: AnswerParser, text_before: str, text: str, special_name: str | None
    ) -> ParsedText:
        """What can be emitted now. special_name: `text` is of this special token."""
        in_reasoning = parser.in_reasoning
        parser.feed(text_before)
        if special_name is None:
            parser.feed(text)
        else:
            parser.feed_special(special_name, text)
        self._num_reasoning_tokens += in_reasoning and parser.in_reasoning
        return parser.take()

    def _finish_from_engine(self, output: StepOutput) -> list[Event]:
        """The engine ended the answer: emit the text held back, unless it completes a stop string."""
        text, stop_string = self._detokenizer.flush(), ""
        if self._stop_matcher:
            if self.num_tokens > self.request.min_tokens:
                text, stop_string = self._stop_matcher.feed(text)
            if not stop_string:
                text += self._stop_matcher.flush()
        if stop_string:
            return self._finish_with("stop", text, stop_string)
        stop_cause = None
        if output.finish_reason == "stop" and output.token_ids:
            last_id = output.token_ids[-1]
            stop_cause = None if last_id in self.eos_token_ids else last_id
        return self._finish_with(cast(FinishReason, output.finish_reason), text, stop_cause)

    def _finish_with(
        self, finish_reason: FinishReason, text: str, stop_cause: str | int | None
    ) -> list[Event]:
        """The last events: the tool calls held back, and Finished with the rest of the text."""
        if self._parser is None:
            return [self._finish(finish_reason, text, stop_cause)]
        self._parser.feed(text)
        self._parser.flush()
        parsed = self._parser.take()
        return [*parsed.call_deltas, self._finish(finish_reason, parsed.text, stop_cause, parsed.reasoning)]

    def _finish(
        self,
        finish_reason: FinishReason,
        text: str = "",
        stop_cause: str | int | None = None,
        reasoning: str = "",
    ) -> Finished:
        self.finished = True
        self._answer_stats.record_finish(finish_reason)
        return Finished(
            self.index,
            finish_reason,
            text=text,
            stop=stop_cause,
            num_tokens=self.num_tokens,
            seed=self.request.sampling.seed,
            reasoning=reasoning,
            num_reasoning_tokens=self._num_reasoning_tokens,
        )


def to_top_logprobs(vocabulary: Vocabulary, top_logprobs: TopLogprobs) -> tuple[TopLogprob, ...]:
    return tuple(
        TopLogprob(token_id, vocabulary.text(token_id), logprob, token_id in vocabulary.special_ids)
        for token_id, logprob in top_logprobs
    )
