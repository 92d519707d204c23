"""Servers of Llama Stack, with the inference API of its releases 0.1 and 0.2: one answer a request."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from inference.content import content_text
from inference.errors import BadRequest
from inference.events import Embedding
from inference.remote.failures import broken
from inference.remote.upstreams.llamastack_reader import LlamaStackReader
from inference.remote.upstreams.openai import is_conversation
from inference.remote.upstreams.options import keep_supported
from inference.remote.upstreams.upstream_api import UpstreamCall
from inference.types import GenerationRequest, Message, Tool, ToolCall
from inference.untrusted_json import decode_json
from settings.remote_model import RemoteModel

CHAT_PATH, COMPLETION_PATH = "/v1/inference/chat-completion", "/v1/inference/completion"
EMBEDDING_PATH = "/v1/inference/embeddings"
PARAMETER_KEYS = frozenset({"type", "description", "default", "title"})  # of a JSON schema that it has too
OPTIONS = frozenset(
    {"top_p", "top_k", "repetition_penalty", "logprobs", "constraint", "tools", "tool_choice"}
)


class EmbeddingsBody(msgspec.Struct):
    """What the route of embeddings returns."""

    embeddings: list[tuple[float, ...]]


# Made at import, which msgspec needs before several threads use them.
EMBEDDINGS_DECODER = msgspec.json.Decoder(EmbeddingsBody)


class LlamaStackApi:
    """An UpstreamApi of Llama Stack."""

    can_resume = ends_at_deadline = False

    def __init__(self, model: RemoteModel, upstream_name: str) -> None:
        self._model = model
        self._upstream_name = upstream_name
        self._server = f"the Llama Stack server behind {model.name}"

    def calls(self, request: GenerationRequest) -> Sequence[UpstreamCall]:
        """One call for each answer."""
        request = keep_supported(request, OPTIONS, self._model.drop, self._server)
        is_chat = is_conversation(request.prompt)
        body = self._common_body(request) | (self._chat(request) if is_chat else self._text(request))
        encoded = msgspec.json.encode(body | dict(self._model.extra))
        path = CHAT_PATH if is_chat else COMPLETION_PATH
        name = self._model.name
        return [
            UpstreamCall(path, encoded, partial(LlamaStackReader, name, index)) for index in range(request.n)
        ]

    def adapt(self, calls: Sequence[UpstreamCall], refusal: str) -> bool:
        return False

    def embedding_call(self, inputs: Sequence[str | Sequence[int]]) -> tuple[str, bytes]:
        for number, each in enumerate(inputs):
            if not each or not isinstance(each, str):
                raise BadRequest("input", f"item {number} must be text for {self._server}")
        body = {"model_id": self._upstream_name, "contents": inputs}
        return EMBEDDING_PATH, msgspec.json.encode(body)

    def read_embeddings(self, body: bytes) -> tuple[Embedding, ...]:
        """The vectors; the tokens of the inputs are unknown, hence 0."""
        try:
            vectors = EMBEDDINGS_DECODER.decode(body).embeddings
        except (ValueError, RecursionError):
            raise broken(self._model.name, "no embeddings") from None
        return tuple(Embedding(vector, 1.0, 0) for vector in vectors)

    def _common_body(self, request: GenerationRequest) -> dict[str, Any]:
        parameters: dict[str, Any] = {
            "strategy": self._strategy(request),
            "max_tokens": request.max_tokens or 0,
        }
        if request.sampling.repetition_penalty != 1.0:
            parameters["repetition_penalty"] = request.sampling.repetition_penalty
        if request.stop:
            parameters["stop"] = list(request.stop)
        body = {"model_id": self._upstream_name, "stream": True, "sampling_params": parameters}
        if request.logprobs is not None:
            body["logprobs"] = {"top_k": request.logprobs}
        if request.constraint:
            if request.constraint.kind != "json_schema":
                rule = f"of the kind {request.constraint.kind} is not supported by {self._server}"
                raise BadRequest(request.constraint.field_name, f"{rule}: use a JSON schema")
            body["response_format"] = {"type": "json_schema", "json_schema": request.constraint.spec}
        return body

    def _strategy(self, request: GenerationRequest) -> dict[str, Any]:
        """Greedy, top_p or top_k: Llama Stack has one of them, and a temperature with the first two."""
        sampling = request.sampling
        if sampling.greedy:
            return {"type": "greedy"}
        if not sampling.top_k:
            return {"type": "top_p", "temperature": sampling.temperature, "top_p": sampling.top_p}
        if sampling.top_p != 1.0 or sampling.temperature != 1.0:
            raise BadRequest("top_k", f"excludes top_p and a temperature for {self._server}", sampling.top_k)
        return {"type": "top_k", "top_k": sampling.top_k}

    def _chat(self, request: GenerationRequest) -> dict[str, Any]:
        messages = [message_json(each) for each in request.prompt if isinstance(each, Message)]
        body: dict[str, Any] = {"messages": messages}
        if tools := request.callable_tools:
            body["tools"] = list(map(tool_json, tools))
            body["tool_config"] = {"tool_choice": request.tool_choice}
        return body

    def _text(self, request: GenerationRequest) -> dict[str, Any]:
        if not isinstance(request.prompt, str):
            raise BadRequest("prompt", f"of token ids is not supported by {self._server}: send text")
        return {"content": request.prompt}


def message_json(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": message.role, "content": content_text(message.content)}
    if message.role == "assistant":
        fields["stop_reason"] = "end_of_message" if message.tool_calls else "end_of_turn"
        fields["tool_calls"] = [
            {
                "call_id": call.id,
                "tool_name": call.name,
                "arguments": arguments_of(call),
                "arguments_json": call.arguments,
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        fields["call_id"] = message.tool_call_id
    return fields


def arguments_of(call: ToolCall) -> Any:
    """The arguments as an object, which 0.1 requires; the text if it is the beginning of one."""
    try:
        return decode_json(call.arguments)
    except ValueError:
        return call.arguments


def tool_json(tool: Tool) -> dict[str, Any]:
    """The tool with its parameters. What Llama Stack has no field for goes into the description."""
    required, properties = tool.parameters.get("required"), tool.parameters.get("properties")
    required = required if isinstance(required, list) else []
    properties = properties if isinstance(properties, dict) else {}
    return {
        "tool_name": tool.name,
        "description": tool.description,
        "parameters": {
            name: parameter_json(schema, name in required)
            for name, schema in properties.items()
            if isinstance(schema, dict)
        },
    }


def parameter_json(schema: dict[str, Any], is_required: bool) -> dict[str, Any]:
    others = {key: value for key, value in schema.items() if key not in PARAMETER_KEYS}
    description = str(schema.get("description") or "")
    described = [description, msgspec.json.encode(others).decode() if others else ""]
    fields = {
        "param_type": str(schema.get("type", "object")),
        "description": " ".join(filter(None, described)),
        "required": is_required,
    }
    return fields | ({"default": schema["default"]} if "default" in schema else {})
