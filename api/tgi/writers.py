"""Converts events to TGI's responses, streamed or not; unstreamed, the best of several answers is returned.

Knows events and response options. Does not know framing or HTTP.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET, structs

from api.accumulator import LOWEST_LOGPROB, Accumulator, cut_reason, finite_logprob
from api.tgi.errors import error_before_start, error_in_stream
from api.tgi.last_token_stream import LastToken
from api.tgi.parse import ResponseOptions
from api.tgi.protocol import (
    BestOfSequence,
    Details,
    FinishReason,
    GenerateResponse,
    OutputToken,
    PrefillToken,
    SequenceDetails,
    SimpleToken,
    StreamDetails,
    StreamResponse,
)
from inference.events import Event, PromptToken, Token
from inference.tokenized import Tokenized


@dataclass(slots=True)
class TgiAccumulator(Accumulator):
    """One answer, and its details in TGI's format."""

    options: ResponseOptions = field(kw_only=True)

    @property
    def mean_logprob(self) -> float:
        return sum(token.logprob or 0.0 for token in self.tokens) / max(1, len(self.tokens))

    @property
    def generated_text(self) -> str:
        return self.options.prompt + self.text

    @property
    def finish_reason(self) -> FinishReason:
        """As in TGI, the token limit takes precedence over the end token, and that over a stop string.

        An answer that the server ended early also has the reason "length", and a stop_reason.
        """
        end, limit = self.finished_event, self.options.max_new_tokens
        if end.finish_reason != "stop" or (limit is not None and end.num_tokens >= limit):
            return "length"
        # An id is a token that ends answers by itself, as vLLM reports it: TGI's requests have no stop ids.
        return "stop_sequence" if isinstance(end.stop, str) else "eos_token"

    def sequence_details(self) -> SequenceDetails:
        prefill = self.started_event.prompt_logprobs if self.options.with_prefill else ()
        top = (
            [top_tokens(token, self.options.num_top_tokens) for token in self.tokens]
            if self.options.num_top_tokens
            else []
        )
        return SequenceDetails(
            finish_reason=self.finish_reason,
            stop_reason=cut_reason(self.finished_event) or UNSET,
            generated_tokens=self.finished_event.num_tokens,
            seed=self.finished_event.seed,
            prefill=list(map(prefill_token, prefill)),
            tokens=self._output_tokens(),
            top_tokens=top or UNSET,
        )

    def stream_details(self) -> StreamDetails:
        end = self.finished_event
        return StreamDetails(
            finish_reason=self.finish_reason,
            generated_tokens=end.num_tokens,
            seed=end.seed,
            input_length=self.num_prompt_tokens,
            stop_reason=cut_reason(end) or UNSET,
        )

    def _output_tokens(self) -> list[OutputToken]:
        """The tokens. Text held back until the end is added to the last one."""
        final_texts = ["" for _ in self.tokens[1:]] + [self.finished_event.text]
        return [
            generated_token(token, final_text)
            for token, final_text in zip(self.tokens, final_texts, strict=False)
        ]


class GenerateWriter:
    """One response, with the most probable of several answers.

    as_list  return a list with the response, as POST / does
    """

    error_before_start = staticmethod(error_before_start)
    error_in_stream = staticmethod(error_in_stream)

    def __init__(self, options: ResponseOptions, num_answers: int = 1, as_list: bool = False) -> None:
        self.options = options
        self.as_list = as_list
        self.outputs = [TgiAccumulator(options=options) for _ in range(num_answers)]

    def chunk(self, event: Event) -> list[Any]:
        self.outputs[event.index].add(event)
        return []

    @property
    def best(self) -> TgiAccumulator:
        """The answer with the highest mean logprob; the first of equal ones."""
        return max(self.outputs, key=lambda output: output.mean_logprob)

    def full_response(self) -> Any:
        best = self.best
        response = GenerateResponse(
            best.generated_text, self._details(best) if self.options.with_details else UNSET
        )
        return [response] if self.as_list else response

    def _details(self, best: TgiAccumulator) -> Details:
        others = [
            BestOfSequence(generated_text=output.generated_text, **structs.asdict(output.sequence_details()))
            for output in self.outputs
            if output is not best
        ]
        return Details(**structs.asdict(best.sequence_details()), best_of_sequences=others or UNSET)


class GenerateStreamWriter(GenerateWriter):
    """An event for each token of a LastTokenStream. The last event also has the whole text."""

    def chunk(self, event: Event) -> list[Any]:
        self.outputs[0].add(event)
        match event:
            case LastToken():
                self.outputs[0].add(event.end)
                return [self._last_response(event)]
            case Token():
                return [self._stream_response(event)]
            case _:
                return []

    def _stream_response(self, token: Token, final_text: str = "") -> StreamResponse:
        num_top = self.options.num_top_tokens
        return StreamResponse(
            index=len(self.outputs[0].tokens),
            token=generated_token(token, final_text),
            top_tokens=(top_tokens(token, num_top) or UNSET) if num_top else UNSET,
        )

    def _last_response(self, event: LastToken) -> StreamResponse:
        response = self._stream_response(event, event.end.text)
        response.generated_text = self.outputs[0].generated_text
        response.details = self.outputs[0].stream_details() if self.options.with_details else None
        return response


def prefill_token(token: PromptToken) -> PrefillToken:
    logprob = None if token.logprob is None else finite_logprob(token.logprob)
    return PrefillToken(token.id, token.text, logprob)


def generated_token(token: Token, final_text: str = "") -> OutputToken:
    """The token in TGI's format. `final_text` was held back until the end, and belongs to the last token.

    A special token's text is its name. The logprob is never null, because clients require a number.
    """
    text = token.spelling if token.is_special else token.text + final_text
    logprob = LOWEST_LOGPROB if token.logprob is None else finite_logprob(token.logprob)
    return OutputToken(token.id, text, logprob, token.is_special)


def top_tokens(token: Token, num_tokens: int) -> list[OutputToken]:
    """The `num_tokens` most probable tokens, and any others as probable as the last of these."""
    # Warpers set the logprob of removed tokens to -inf, which JSON cannot express.
    listed = [each for each in token.top_logprobs if each.logprob > -math.inf]
    candidates = sorted(listed, key=lambda each: each.logprob, reverse=True)
    min_logprob = candidates[:num_tokens][-1].logprob if candidates and num_tokens else math.inf
    return [
        OutputToken(each.id, each.text, each.logprob, each.is_special)
        for each in candidates
        if each.logprob >= min_logprob
    ]


def simple_tokens(tokenized: Tokenized) -> list[SimpleToken]:
    """Tokens with their characters. A part of a character has the whole character, an added token none."""
    return [
        SimpleToken(token.id, tokenized.text[token.start : token.stop], token.start, token.stop)
        for token in tokenized.token_spans
    ]
