"""The generations of the Llama Stack protocol: where each is mounted and how its JSON differs.

Clients choose a generation by the path they call, and by nothing else. Knows no event and no HTTP.
"""

import json
from dataclasses import dataclass
from typing import Any, Literal

from api.said import Call

ParseStatus = Literal["started", "in_progress", "failed", "succeeded"]
UNTYPED_STATUS = {"failed": "failure", "succeeded": "success"}


@dataclass(frozen=True, slots=True)
class Generation:
    """One age of the protocol.

    name      also of its blueprint
    prefix    of all its paths
    joint     joins the words of a path's last part: chat_completion or chat-completion
    typed     streamed chat pieces are objects that name their type; else text is a bare string
    doubled   a whole completion also carries `completion_message`, which its first clients read
    boxed     the content of a whole chat message is an object, as the remote::passthrough provider reads it
    """

    name: str
    prefix: str
    joint: str
    typed: bool = False
    doubled: bool = False
    boxed: bool = False

    def path(self, words: str) -> str:
        """`chat completion` as this generation spells it."""
        return words.replace(" ", self.joint)

    def text(self, text: str) -> Any:
        """A streamed piece of text."""
        return {"type": "text", "text": text} if self.typed else text

    def content(self, text: str) -> Any:
        """The content of a whole message."""
        return {"type": "text", "text": text} if self.boxed else text

    def piece(self, call: str | dict[str, Any], status: ParseStatus) -> dict[str, Any]:
        """A streamed piece of a tool call: text while it comes, `call` when it is complete."""
        if self.typed:
            return {"type": "tool_call", "tool_call": call, "parse_status": status}
        return {"content": call, "parse_status": UNTYPED_STATUS.get(status, status)}

    def call(self, call: Call) -> dict[str, Any]:
        """A complete tool call."""
        told = {"call_id": call.id, "tool_name": call.name, "arguments": json.loads(call.arguments)}
        return told | {"arguments_json": call.arguments} if self.typed else told


ROOT = Generation("root", "", "_", doubled=True)  # clients up to 0.0.50
ALPHA = Generation("alpha", "/alpha", "-")  # 0.0.53 to 0.0.63
V1 = Generation("v1", "/v1", "-", typed=True)  # 0.1.0 to 0.2.23
PASSTHROUGH = Generation("passthrough", "/passthrough/v1", "-", typed=True, boxed=True)  # a 0.2 distribution

GENERATIONS = (ROOT, ALPHA, V1, PASSTHROUGH)
