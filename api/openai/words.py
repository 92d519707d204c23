"""OpenAI's words for what an answer has come to; the same for completions, chats and responses."""

from typing import Any

from api.said import Call
from inference.types import CallDelta, Finished

# OpenAI's clients know no other reasons; a deadline and a server that stops cut an answer short, too.
REASONS = {"stop": "stop", "length": "length", "deadline": "length", "cancelled": "length"}


def call_id(call: Call | CallDelta) -> str:
    """As vLLM names a call."""
    return f"chatcmpl-tool-{call.id.removeprefix('call_')}"


def reason(end: Finished) -> dict[str, Any]:
    """Why an answer ended; stop_reason is the stop string or token that was met."""
    return {"finish_reason": REASONS[end.reason], "stop_reason": end.stop}
