"""Servers with OpenAI's API: OpenAI, Azure, vLLM, SGLang, llama.cpp, Ollama, another Hearth, vendors.

A conversation goes to chat completions, a text to completions.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from inference.errors import BadRequest
from inference.events import Embedding
from inference.remote.failures import broken
from inference.remote.upstreams.answer_stops import stop_strings
from inference.remote.upstreams.choices import is_count
from inference.remote.upstreams.flavours import Flavour
from inference.remote.upstreams.openai_body import chat_body, completion_body
from inference.remote.upstreams.openai_reader import OpenAIReader
from inference.remote.upstreams.options import keep_supported
from inference.remote.upstreams.upstream_api import UpstreamCall
from inference.types import GenerationRequest, Message
from settings.remote_model import RemoteModel

# Sent to every server, or to every one like vLLM, and left out for one that refuses them: then tokens are
# counted here, or have no ids. SGLang 0.5 refuses the second in streamed chats.
DISPENSABLE_OPTIONS = "stream_options", "return_token_ids"
CHAT_PATH, COMPLETION_PATH, EMBEDDING_PATH = "/chat/completions", "/completions", "/embeddings"
INCLUDE_STOP = "include_stop_str_in_output"
DEFAULT_MAX_TOKENS = 1024  # of a completion without a limit: h2oGPT's


class EmbeddingObject(msgspec.Struct):
    index: int
    embedding: tuple[float, ...]


class EmbeddingUsage(msgspec.Struct):
    prompt_tokens: Any = 0


class EmbeddingList(msgspec.Struct):
    """What the route of embeddings returns."""

    data: list[EmbeddingObject]
    usage: EmbeddingUsage | None = None


# Made at import, which msgspec needs before several threads use them.
EMBEDDINGS_DECODER = msgspec.json.Decoder(EmbeddingList)


class OpenAIApi:
    """An UpstreamApi of OpenAI's routes.

    upstream_name  the model's name at the upstream
    """

    def __init__(self, model: RemoteModel, flavour: Flavour, upstream_name: str) -> None:
        self._model = model
        self._flavour = replace(flavour, model=model.name)
        self._upstream_name = upstream_name
        self._refused_options: frozenset[str] = frozenset()

    @property
    def can_resume(self) -> bool:
        return "output_token_ids" in self._flavour.spellings

    @property
    def ends_at_deadline(self) -> bool:
        return "deadline" in self._flavour.spellings

    def calls(self, request: GenerationRequest) -> Sequence[UpstreamCall]:
        request = keep_supported(request, self._flavour.options, self._model.drop, self._flavour.server)
        stops, is_watched_here = stop_strings(request), self._is_watched_here(request)
        if is_watched_here:
            request = replace(request, stop=(), include_stop_str_in_output=False)
        is_chat = is_conversation(request.prompt)
        self._check_prompt(request, is_chat)
        path = CHAT_PATH if is_chat else COMPLETION_PATH
        body = self._body(request, is_chat) | dict(self._model.extra)
        body = {name: value for name, value in body.items() if name not in self._refused_options}
        stops = stops if is_watched_here or self._flavour.leaves_stops else None
        make_reader = partial(OpenAIReader, self._model.name, request.n, stops, is_watched_here)
        return [UpstreamCall(path, msgspec.json.encode(body), make_reader)]

    def adapt(self, calls: Sequence[UpstreamCall], refusal: str) -> bool:
        refused = {
            name
            for name in DISPENSABLE_OPTIONS
            if name in refusal and any(f'"{name}":'.encode() in each.body for each in calls)
        }
        self._refused_options |= refused
        return bool(refused)

    def embedding_call(self, inputs: Sequence[str | Sequence[int]]) -> tuple[str, bytes]:
        for number, each in enumerate(inputs):
            if not each:
                raise BadRequest("input", f"item {number} is empty")
        body = {"model": self._upstream_name, "input": inputs, "encoding_format": "float"}
        return EMBEDDING_PATH, msgspec.json.encode(body)

    def read_embeddings(self, body: bytes) -> tuple[Embedding, ...]:
        """The vectors in the order of the inputs. The tokens of all inputs are counted to the first."""
        try:
            document = EMBEDDINGS_DECODER.decode(body)
            num_tokens = document.usage.prompt_tokens if document.usage else 0
            if not is_count(num_tokens):
                raise ValueError
        except (ValueError, RecursionError):
            raise broken(self._model.name, "no embeddings") from None
        items = sorted(document.data, key=lambda item: item.index)
        counts = [num_tokens] + [0] * (len(items) - 1)
        return tuple(
            Embedding(item.embedding, 1.0, count) for item, count in zip(items, counts, strict=False)
        )

    def _is_watched_here(self, request: GenerationRequest) -> bool:
        """Whether an answer ends here at a stop string: its server has no place for the request's stops."""
        flavour = self._flavour
        is_too_many = flavour.max_stops is not None and len(request.stop) > flavour.max_stops
        has_option = flavour.leaves_stops or INCLUDE_STOP in flavour.spellings
        return is_too_many or (bool(request.stop) and request.include_stop_str_in_output and not has_option)

    def _body(self, request: GenerationRequest, is_chat: bool) -> dict[str, Any]:
        if is_chat:
            return chat_body(request, self._upstream_name, self._flavour)
        default = self._model.max_tokens or DEFAULT_MAX_TOKENS
        return completion_body(request, self._upstream_name, self._flavour, default)

    def _check_prompt(self, request: GenerationRequest, is_chat: bool) -> None:
        """Raise BadRequest for a prompt that the upstream has no route for."""
        routes = self._model.server.routes
        if is_chat and routes == "completions":
            fix = "set it up as vllm_chat:… or openai_chat:…, or set its prompt_type or tokenizer_base_model"
            raise BadRequest(
                "messages", f"are not supported by {self._flavour.server}, which completes text: {fix}"
            )
        if not is_chat and routes == "chat":
            raise BadRequest(
                "prompt", f"is not supported by {self._flavour.server}, which has chats only: send messages"
            )
        is_ids = not is_chat and not isinstance(request.prompt, str)
        if is_ids and not self._flavour.has_prompt_ids:
            raise BadRequest("prompt", f"of token ids is not supported by {self._flavour.server}: send text")
        if not is_chat and request.tools:
            raise BadRequest(
                "tools", f"are not supported by {self._flavour.server} for a text prompt: send messages"
            )


def is_conversation(prompt: str | Sequence[int] | Sequence[Message]) -> bool:
    return not isinstance(prompt, str) and len(prompt) > 0 and isinstance(prompt[0], Message)
