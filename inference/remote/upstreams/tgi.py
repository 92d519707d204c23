"""Servers of Text Generation Inference: text by its own route, conversations by its OpenAI route."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from inference.errors import BadRequest, NotImplementedHere
from inference.events import Embedding, Event, Token, TopLogprob
from inference.remote.upstreams.answer_stops import AnswerStops, stop_strings
from inference.remote.upstreams.choices import known_logprob
from inference.remote.upstreams.flavours import Flavour
from inference.remote.upstreams.openai import OpenAIApi, is_conversation
from inference.remote.upstreams.options import keep_supported
from inference.remote.upstreams.streamed_reader import StreamedReader
from inference.remote.upstreams.upstream_api import UpstreamCall
from inference.text.stop_strings import StopStrings
from inference.types import Constraint, GenerationRequest
from settings.remote_model import RemoteModel

STREAM_PATH, CHAT_PREFIX = "/generate_stream", "/v1"
CHAT_FLAVOUR = Flavour("TGI", {}, max_stops=4, leaves_stops=True, ignored=frozenset({"reasoning_effort"}))
MAX_TOP_TOKENS = 5
MAX_STOPS = 4  # where /info does not say it
DEFAULT_MAX_TOKENS = 1024
OPTIONS = frozenset(
    {
        "top_k",
        "top_p",
        "typical_p",
        "repetition_penalty",
        "tgi_frequency_penalty",
        "seed",
        "logprobs",
        "constraint",
        "truncate",
        "show_special",
        "include_stop_str_in_output",
    }
)


class TgiApi:
    """An UpstreamApi of TGI.

    info  what the server's /info says; empty: it was not asked
    """

    can_resume = ends_at_deadline = False

    def __init__(self, model: RemoteModel, upstream_name: str, info: Mapping[str, Any]) -> None:
        self._model = model
        self._info = info
        self._server = f"the TGI server behind {model.name}"
        self._chats = OpenAIApi(model, CHAT_FLAVOUR, upstream_name)

    def calls(self, request: GenerationRequest) -> Sequence[UpstreamCall]:
        """One call for each answer: TGI streams one."""
        if is_conversation(request.prompt):
            return [replace(call, path=CHAT_PREFIX + call.path) for call in self._chats.calls(request)]
        if not isinstance(request.prompt, str):
            raise BadRequest("prompt", f"of token ids is not supported by {self._server}: send text")
        request = keep_supported(request, OPTIONS, self._model.drop, self._server)
        return [self._call(request, index) for index in range(request.n)]

    def adapt(self, calls: Sequence[UpstreamCall], refusal: str) -> bool:
        return self._chats.adapt(calls, refusal)

    def embedding_call(self, inputs: Sequence[str | Sequence[int]]) -> tuple[str, bytes]:
        raise NotImplementedHere(f"{self._server} makes no embeddings")

    def read_embeddings(self, body: bytes) -> tuple[Embedding, ...]:
        raise NotImplementedHere(f"{self._server} makes no embeddings")

    def _call(self, request: GenerationRequest, index: int) -> UpstreamCall:
        stops = stop_strings(request)
        if is_watched_here := len(request.stop) > self._info.get("max_stop_sequences", MAX_STOPS):
            request = replace(request, stop=())
        body = {"inputs": request.prompt, "parameters": self._parameters(request, index)}
        body |= dict(self._model.extra)
        make_reader = partial(
            TgiReader, self._model.name, index, stops, request.show_special, ends_at_stop=is_watched_here
        )
        return UpstreamCall(STREAM_PATH, msgspec.json.encode(body), make_reader)

    def _parameters(self, request: GenerationRequest, index: int) -> dict[str, Any]:
        """TGI refuses neutral values of some parameters: they are left out."""
        sampling = request.sampling
        parameters: dict[str, Any] = {"do_sample": not sampling.greedy, "return_full_text": False}
        parameters |= {"details": True, "decoder_input_details": False}
        parameters["max_new_tokens"] = request.max_tokens or self._default_max_tokens()
        if not sampling.greedy:
            parameters |= {"temperature": sampling.temperature} if sampling.temperature > 0 else {}
            parameters |= {"top_k": sampling.top_k} if sampling.top_k > 0 else {}
            shares = {"top_p": sampling.top_p, "typical_p": sampling.typical_p}
            parameters |= {name: share for name, share in shares.items() if 0 < share < 1}
        if sampling.repetition_penalty != 1.0:
            parameters["repetition_penalty"] = sampling.repetition_penalty
        if sampling.tgi_frequency_penalty:
            parameters["frequency_penalty"] = sampling.tgi_frequency_penalty
        if sampling.seed is not None:
            parameters["seed"] = sampling.seed + index
        if request.truncate is not None:
            parameters["truncate"] = request.truncate
        return parameters | self._output_parameters(request)

    def _output_parameters(self, request: GenerationRequest) -> dict[str, Any]:
        """Stop strings, alternatives and grammar. Raises BadRequest for what TGI refuses."""
        parameters: dict[str, Any] = {}
        if request.stop:
            parameters["stop"] = list(request.stop)
        if request.logprobs:
            if request.logprobs > MAX_TOP_TOKENS:
                rule = f"may be at most {MAX_TOP_TOKENS} for {self._server}"
                raise BadRequest("logprobs", rule, request.logprobs)
            parameters["top_n_tokens"] = request.logprobs
        if request.constraint:
            parameters["grammar"] = self._grammar(request.constraint)
        return parameters

    def _grammar(self, constraint: Constraint) -> dict[str, Any]:
        if constraint.kind == "regex":
            return {"type": "regex", "value": constraint.spec}
        if constraint.kind in ("json", "json_schema"):
            return {"type": "json", "value": constraint.spec or {"type": "object"}}
        rule = (
            f"of the kind {constraint.kind} is not supported by {self._server}: use a JSON schema or a regex"
        )
        raise BadRequest(constraint.field_name, rule)

    def _default_max_tokens(self) -> int:
        context = self._info.get("max_total_tokens") or 2 * DEFAULT_MAX_TOKENS
        return self._model.max_tokens or min(DEFAULT_MAX_TOKENS, context // 2)


class TgiReader(StreamedReader):
    """Reads one answer.

    stops         None if the request has no stop strings
    ends_at_stop  the server does not know the stops: the answer ends here at the first one
    """

    CHUNK = "token of TGI"

    def __init__(
        self,
        model: str,
        index: int,
        stops: StopStrings | None,
        show_special: bool,
        ends_at_stop: bool = False,
    ) -> None:
        super().__init__(model, index)
        self._ends_at_stop = ends_at_stop
        self._stops = AnswerStops(stops)
        self._show_special = show_special

    def read_chunk(self, chunk: dict[str, Any]) -> list[Event]:
        events = self.choices.start(self.index)
        token = self._token(chunk["token"], chunk.get("top_tokens") or ())
        is_stopped = self._ends_at_stop and bool(self._stops.stop)
        if chunk.get("generated_text") is None and not is_stopped:
            return [*events, *self.choices.tokens([token])]
        details = chunk.get("details") or {}
        self.choices.note_counts(
            prompt=details.get("input_length"), completion=details.get("generated_tokens")
        )
        reason = details.get("finish_reason", "stop")
        return [
            *events,
            *self.choices.end(
                self.index,
                reason,
                self._stops.stop or None,
                last_tokens=[token],
                text=self._stops.held_text(),
                seed=details.get("seed"),
            ),
        ]

    def finish_at_deadline(self) -> list[Event]:
        return self.choices.finish_at_deadline({self.index: self._stops.held_text()})

    def _token(self, token: dict[str, Any], top_tokens: Sequence[dict[str, Any]]) -> Token:
        is_special = bool(token.get("special"))
        text = "" if is_special and not self._show_special else token["text"]
        return Token(
            self.index,
            token["id"],
            self._stops.feed(text),
            known_logprob(token.get("logprob")),
            tuple(map(top_logprob, top_tokens)),
            is_special,
            spelling=token["text"],
        )


def top_logprob(token: dict[str, Any]) -> TopLogprob:
    logprob = known_logprob(token.get("logprob"))
    is_special = bool(token.get("special"))
    return TopLogprob(token["id"], token["text"], float("-inf") if logprob is None else logprob, is_special)
