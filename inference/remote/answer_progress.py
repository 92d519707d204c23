"""What the client has got of one answer, so that another server can go on with it.

The other server gets the tokens so far, and sends the answer from its beginning: what the client has is left
out here.
"""

import random
from dataclasses import replace

from inference.events import CallDelta, Event, Finished, Started, Token
from inference.remote.failures import broken
from inference.types import GenerationRequest

SEED_BITS = 31  # of the seed of a request that has none: with it, another server draws the same tokens


class AnswerProgress:
    """The answer to one request.

    model       the model in messages
    has_events  something was passed on
    """

    def __init__(self, model: str, request: GenerationRequest) -> None:
        self.has_events = False
        self._model = model
        self._request = request
        self._token_ids: list[int] = []
        self._calls: dict[int, CallDelta] = {}  # each with its arguments so far
        self._num_repeated = 0
        self._repeated_calls: dict[int, int] = {}  # call_index -> characters of its arguments
        self._has_unknown_ids = request.n > 1 or request.prompt_logprobs is not None

    @property
    def can_resume(self) -> bool:
        """Whether another server can go on: the ids of all tokens are known."""
        return not self._has_unknown_ids

    @property
    def num_tokens(self) -> int:
        return len(self._token_ids)

    def resumable_request(self) -> GenerationRequest:
        """The request with what has been generated so far. A sampled answer has a seed from its beginning."""
        sampling = self._request.sampling
        if not sampling.greedy and sampling.seed is None:
            sampling = replace(sampling, seed=random.getrandbits(SEED_BITS))
            self._request = replace(self._request, sampling=sampling)
        return replace(self._request, output_token_ids=tuple(self._token_ids))

    def begin_attempt(self) -> None:
        """A server begins to answer. It repeats what the client has."""
        self._num_repeated = len(self._token_ids)
        self._repeated_calls = {index: len(call.arguments) for index, call in self._calls.items()}

    def new_events(self, events: list[Event]) -> list[Event]:
        """The events that the client has not got. Raises UpstreamFailure if the repeated tokens differ."""
        new = [each for event in events for each in self._new_events(event)]
        self.has_events = self.has_events or bool(new)
        return new

    def _new_events(self, event: Event) -> list[Event]:
        match event:
            case Started():
                return [] if self.has_events else [event]
            case Token():
                return self._new_token(event)
            case CallDelta():
                return self._new_call_delta(event)
            case Finished():
                return [event]

    def _new_token(self, token: Token) -> list[Event]:
        self._has_unknown_ids |= token.id < 0
        if not self._num_repeated:
            self._token_ids.append(token.id)
            return [token]
        if token.id != self._token_ids[-self._num_repeated]:
            raise broken(self._model, "another server goes on with other tokens")
        self._num_repeated -= 1
        return []

    def _new_call_delta(self, delta: CallDelta) -> list[Event]:
        """The rest of a piece of a call, under the id that the client knows."""
        known = self._calls.get(delta.call_index)
        num_repeated = min(self._repeated_calls.get(delta.call_index, 0), len(delta.arguments))
        if known is None:
            self._calls[delta.call_index] = delta
            return [delta]
        self._repeated_calls[delta.call_index] = self._repeated_calls.get(delta.call_index, 0) - num_repeated
        rest = replace(delta, id=known.id, arguments=delta.arguments[num_repeated:])
        is_news = bool(rest.arguments) or (rest.done and not known.done)
        arguments = known.arguments + rest.arguments
        self._calls[delta.call_index] = replace(rest, arguments=arguments, done=known.done or rest.done)
        return [rest] if is_news else []
