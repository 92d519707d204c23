"""The samples of one request: collected from the events of the backend, and written as JSON.

Knows events and what the request asked to see; no HTTP, no sessions.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from api.response import CLOSED_STREAM
from api.tinker.sampling.parse import SampleOptions
from api.tinker.tensor_json import write_tensor_json
from api.tinker.tensors import FLOAT, INTEGER, Tensor
from inference.backend import Stream
from inference.errors import ServerError
from inference.events import Event, Finished, PromptToken, Started, Token, TopLogprob

TopTokens = tuple[tuple[int, float], ...]  # (id, logprob), the most probable first
EMPTY_BYTES, PAIR_BYTES, NUMBER_BYTES = 2048, 140, 36  # measured: a promise, a tuple, an item of a list


@dataclass(slots=True)
class SampledSequence:
    """One sample.

    token_ids   with the one that ended the sequence
    top_tokens  of each of them, if they are to be shown
    """

    stop_reason: Literal["stop", "length"] = "length"
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top_tokens: list[TopTokens] = field(default_factory=list)


@dataclass(slots=True)
class SampleResult:
    """The reply to a request for samples.

    prompt_logprobs    by token, None where it is not scored; None: not to be shown
    prompt_top_tokens  likewise
    num_cached_tokens  tokens of the prompt that prefix caching supplied
    target_logprobs    of the requested tokens, in their shape and layout; None: none
    drawn_tokens       ids and logprobs of the tokens drawn at the places of the prompt, (N - 1, k)
    """

    sequences: list[SampledSequence]
    prompt_logprobs: list[float | None] | None = None
    prompt_top_tokens: list[TopTokens | None] | None = None
    num_cached_tokens: int = 0
    target_logprobs: Tensor | None = None
    drawn_tokens: tuple[Tensor, Tensor] | None = None

    @property
    def num_bytes(self) -> int:
        """About what it takes in memory."""
        tops = [top for sequence in self.sequences for top in sequence.top_tokens]
        num_top = sum(len(top) for top in (*tops, *(self.prompt_top_tokens or ())) if top)
        num_tokens = sum(len(sequence.token_ids) for sequence in self.sequences)
        tensors = sum(
            tensor.values.nbytes for tensor in (self.target_logprobs, *(self.drawn_tokens or ())) if tensor
        )
        num_numbers = 2 * num_tokens + len(self.prompt_logprobs or ())
        return EMPTY_BYTES + num_top * PAIR_BYTES + num_numbers * NUMBER_BYTES + tensors


class SampleCollector:
    """Collects the events of a stream; then calls `on_end` with the result, or the error that ended it.

    The stream stays referenced until then: the engine cancels a stream that nobody refers to.
    """

    def __init__(
        self, stream: Stream, options: SampleOptions, on_end: Callable[[SampleResult | ServerError], None]
    ) -> None:
        self._stream, self._options, self._on_end = stream, options, on_end
        self._result = SampleResult([SampledSequence() for _ in range(options.num_samples)])
        self._num_unfinished = options.num_samples

    def start(self) -> None:
        self._stream.start(self._receive)

    def close(self) -> None:
        """Cancel the samples; on_end is not called any more."""
        self._stream.close()
        self._stream = CLOSED_STREAM
        self._num_unfinished = 0

    def _receive(self, arrived: list[Event] | ServerError) -> None:
        if not self._num_unfinished:
            return
        if isinstance(arrived, ServerError):
            self._end(arrived)
            return
        for event in arrived:
            self._add(event)
        if not self._num_unfinished:
            self._end(self._result)

    def _end(self, outcome: SampleResult | ServerError) -> None:
        self.close()
        self._on_end(outcome)

    def _add(self, event: Event) -> None:
        sequence = self._result.sequences[event.index]
        match event:
            case Started(index=0):
                self._add_prompt(event)
            case Token():
                sequence.token_ids.append(event.id)
                sequence.logprobs.append(event.logprob or 0.0)
                if self._options.num_top:
                    sequence.top_tokens.append(to_top_tokens(event.top_logprobs))
            case Finished():
                sequence.stop_reason = "stop" if event.finish_reason == "stop" else "length"
                self._num_unfinished -= 1

    def _add_prompt(self, event: Started) -> None:
        options, result = self._options, self._result
        result.num_cached_tokens = event.cached_tokens
        num_unscored = len(event.prompt_logprobs) - (options.num_scored or len(event.prompt_logprobs))
        scored: list[PromptToken | None] = [None] * num_unscored + list(event.prompt_logprobs[num_unscored:])
        places = [token.place for token in event.prompt_logprobs if token.place is not None]
        if options.targets:
            values = [logprob for place in places for logprob in place.candidates]
            result.target_logprobs = options.targets.to_tensor(values)
        if options.num_draws:
            result.drawn_tokens = to_drawn_tokens([place.draws for place in places])
        if options.prompt_logprobs:
            result.prompt_logprobs = [None if token is None else token.logprob for token in scored]
        if options.num_prompt_top:
            result.prompt_top_tokens = [
                None if token is None or token.logprob is None else to_top_tokens(token.top_logprobs)
                for token in scored
            ]


def to_top_tokens(top_logprobs: tuple[TopLogprob, ...]) -> TopTokens:
    return tuple((each.id, each.logprob) for each in top_logprobs)


def to_drawn_tokens(rows: list[TopTokens]) -> tuple[Tensor, Tensor]:
    """Ids and logprobs, (rows, k) each."""
    shape = (len(rows), len(rows[0]) if rows else 0)
    ids, logprobs = ([[pair[index] for pair in row] for row in rows] for index in (0, 1))
    return Tensor(np.array(ids, INTEGER).ravel(), shape), Tensor(np.array(logprobs, FLOAT).ravel(), shape)


def to_json(result: SampleResult) -> dict[str, Any]:
    """The reply as clients below 0.25 read it."""
    reply: dict[str, Any] = {
        "type": "sample",
        "sequences": [sequence_json(sequence) for sequence in result.sequences],
        "prompt_logprobs": result.prompt_logprobs,
        "topk_prompt_logprobs": result.prompt_top_tokens,
        "prompt_cache_hit_tokens": result.num_cached_tokens,
        "target_prompt_logprobs": result.target_logprobs and write_tensor_json(result.target_logprobs),
        "prompt_alt_tokens": result.drawn_tokens and drawn_json(*result.drawn_tokens),
    }
    return {key: value for key, value in reply.items() if value is not None}


def drawn_json(ids: Tensor, logprobs: Tensor) -> dict[str, Any]:
    return {"tokens": write_tensor_json(ids), "logprobs": write_tensor_json(logprobs)}


def sequence_json(sequence: SampledSequence) -> dict[str, Any]:
    tokens = {
        "stop_reason": sequence.stop_reason,
        "tokens": sequence.token_ids,
        "logprobs": sequence.logprobs,
    }
    return tokens | ({"topk_logprobs": sequence.top_tokens} if sequence.top_tokens else {})
