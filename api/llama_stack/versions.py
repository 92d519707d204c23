"""The versions of the Llama Stack protocol: their paths, and how their JSON and their streams differ.

The path of a request selects the version. Does not know events.
"""

import json
from dataclasses import dataclass
from typing import Literal

from msgspec import UNSET
from werkzeug.datastructures import Headers

from api.accumulator import AccumulatedCall
from api.client_detection import is_generated, is_llama_stack
from api.llama_stack.protocol.inference import (
    TextContent,
    ToolCallDelta,
    ToolCallResponse,
    UntypedToolCallDelta,
)
from api.response import NDJSON, SSE, Framing

ParseStatus = Literal["started", "in_progress", "failed", "succeeded"]
UNTYPED_STATUS = {"failed": "failure", "succeeded": "success"}
LINE_TYPES = ("application/x-ndjson", "application/jsonl")
FRAMINGS = {"auto": NDJSON, "ndjson": NDJSON, "sse": SSE}


@dataclass(frozen=True, slots=True)
class ProtocolVersion:
    """One version of the protocol.

    name             name of the version and of its blueprint
    prefix           prefix of its paths
    separator        joins the words of a path's last segment: chat_completion or chat-completion
    typed_deltas     streamed deltas are objects with a type; else a text delta is a string
    repeats_message  an unstreamed completion also has `completion_message`, which the first clients read
    object_content   the content of an unstreamed chat message is an object, for remote::passthrough
    """

    name: str
    prefix: str
    separator: str
    typed_deltas: bool = False
    repeats_message: bool = False
    object_content: bool = False

    @property
    def lists_in_data(self) -> bool:
        """Lists are in the field `data`, as in OpenAI's API; before 0.1 they are plain arrays."""
        return self.typed_deltas

    def path(self, words: str) -> str:
        """`words` with this version's separator in place of spaces."""
        return words.replace(" ", self.separator)

    def delta_text(self, text: str) -> str | TextContent:
        """A streamed piece of text."""
        return TextContent("text", text) if self.typed_deltas else text

    def call_delta(
        self, call: str | ToolCallResponse, status: ParseStatus
    ) -> ToolCallDelta | UntypedToolCallDelta:
        """A streamed piece of a tool call. `call` is JSON text until the call is complete."""
        if self.typed_deltas:
            return ToolCallDelta("tool_call", call, status)
        return UntypedToolCallDelta(call, UNTYPED_STATUS.get(status, status))

    def tool_call(self, call: AccumulatedCall) -> ToolCallResponse:
        """A complete tool call; `call.arguments` must be valid JSON."""
        arguments_json = call.arguments if self.typed_deltas else UNSET
        return ToolCallResponse(call.id, call.name, json.loads(call.arguments), arguments_json)


ROOT = ProtocolVersion("root", "", "_", repeats_message=True)  # clients up to 0.0.50
ALPHA = ProtocolVersion("alpha", "/alpha", "-")  # 0.0.53 to 0.0.63
V1 = ProtocolVersion("v1", "/v1", "-", typed_deltas=True)  # 0.1.0 to 0.2.23
# A 0.2 distribution.
PASSTHROUGH = ProtocolVersion("passthrough", "/passthrough/v1", "-", typed_deltas=True, object_content=True)

V1ALPHA = ProtocolVersion("v1alpha", "/v1alpha", "-", typed_deltas=True)  # post-training since 0.3
V1BETA = ProtocolVersion("v1beta", "/v1beta", "-", typed_deltas=True)  # datasets since 0.3

VERSIONS = (ROOT, ALPHA, V1, PASSTHROUGH)  # that have inference
POST_TRAINING_VERSIONS = (ROOT, ALPHA, V1, V1ALPHA)
DATASET_VERSIONS = (ROOT, ALPHA, V1, V1BETA)


def choose_framing(headers: Headers, version: ProtocolVersion, stream_format: str) -> Framing:
    """JSON lines or server-sent events. No single header identifies all clients, hence several rules.

    stream_format  auto, ndjson or sse: for the root paths, if no header decides
    """
    accept = headers.get("Accept", "")
    if any(kind in accept for kind in LINE_TYPES):
        return NDJSON
    if "text/event-stream" in accept or is_llama_stack(headers) or is_generated(headers):
        return SSE  # generated clients decode only SSE, whatever their Accept header
    return FRAMINGS[stream_format] if version is ROOT else SSE
