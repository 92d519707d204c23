"""Llama Stack's conversations in the server's own terms.

All generations' message shapes are read alike: `ipython` is `tool`; content is text, a part or a list.
"""

import json

from api.llama_stack.bodies import Call, ChatMessage, Content, Part
from inference import foreign
from inference.errors import BadRequest
from inference.types import Message, ToolCall

ROLES = ("user", "system", "assistant", "tool", "ipython")


def text(content: Content | None, field: str) -> str:
    """The content's text; BadRequest where it holds anything else."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "".join(text(part, f"{field}[{i}]") for i, part in enumerate(content))
        case Part():
            return _part(content, field)


def _part(part: Part, field: str) -> str:
    if part.text is not None and part.type in (None, "text"):
        return part.text
    if part.type == "text":
        raise BadRequest(field, "is of type text but has no text")
    raise BadRequest(field, "is not text, and the served model reads text only", part.type or "an image")


def messages(said: list[ChatMessage], field: str) -> tuple[Message, ...]:
    if not said:
        raise BadRequest(field, "must hold at least one message")
    calls = [call for message in said for call in message.tool_calls or ()]
    names = {call.call_id: call.tool_name for call in calls if call.call_id}
    return tuple(_message(message, names, f"{field}[{i}]") for i, message in enumerate(said))


def _message(said: ChatMessage, names: dict[str, str], field: str) -> Message:
    """`names`: which tool each earlier call named, for answers that give the call's id alone."""
    if said.content is None and said.role != "assistant":
        raise BadRequest(f"{field}.content", "must not be null")
    content = text(said.content, f"{field}.content")
    match said.role:
        case "tool" | "ipython":
            name = said.tool_name or names.get(said.call_id or "")
            return Message("tool", content, name=name, tool_call_id=said.call_id)
        case "assistant":
            calls = enumerate(said.tool_calls or ())
            return Message(
                "assistant",
                content,
                tool_calls=tuple(_call(call, f"{field}.tool_calls[{i}]") for i, call in calls),
            )
        case "user" if said.context is not None:
            return Message("user", f"{content}\n\n{text(said.context, f'{field}.context')}")
        case "user" | "system" as role:
            return Message(role, content)
        case role:
            raise BadRequest(f"{field}.role", f"must be one of {', '.join(ROLES)}", role)


def _call(call: Call, field: str) -> ToolCall:
    id = call.call_id or ""
    given = call.arguments_json if call.arguments_json is not None else call.arguments
    if not isinstance(given, str):
        return ToolCall(id, call.tool_name, json.dumps(given or {}, ensure_ascii=False))
    try:
        arguments = foreign.parsed(given)
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise BadRequest(f"{field}.arguments", "must be a JSON object", given)
    return ToolCall(id, call.tool_name, given)
