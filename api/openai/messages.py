"""OpenAI's conversations in the server's own terms. Shapes are known to be right, meanings not."""

import json
from typing import Any

from api.openai.conversation import Call, ChatMessage, Content, Part
from api.openai.errors import Refused, WrongBody
from inference import foreign
from inference.errors import short
from inference.types import Message, Role, ToolCall

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",  # before there were tools
}
TEXTS = ("text", "input_text", "output_text")


def messages(said: list[ChatMessage], field: str = "messages") -> tuple[Message, ...]:
    """Raises WrongBody, and Refused for what the model cannot read."""
    if not said:
        raise WrongBody(f"{field} must hold at least one message", field)
    calls = [call for message in said for call in message.tool_calls or ()]
    names = {call.id: call.function.name for call in calls if call.id}
    return tuple(_message(message, names, f"{field}[{i}]") for i, message in enumerate(said))


def text(content: Content | None, field: str) -> str:
    """The text of all parts, one after the other."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(_part(part, f"{field}[{i}]") for i, part in enumerate(content))


def call_arguments(given: str | dict[str, Any] | None, field: str) -> str:
    """JSON text of an object."""
    if not isinstance(given, str):
        return json.dumps(given or {}, ensure_ascii=False)
    try:
        arguments = foreign.parsed(given or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise WrongBody(f"{field} must be a JSON object, got {short(given)}", field)
    return given or "{}"


def _message(said: ChatMessage, names: dict[str, str], field: str) -> Message:
    """`names`: which function each earlier call named, for results that give the call's id alone."""
    if said.role not in ROLES:
        rule = f"{field}.role must be one of {', '.join(ROLES)}, got {short(said.role)}"
        raise WrongBody(rule, f"{field}.role")
    role = ROLES[said.role]
    if said.content is None and role in ("system", "user"):
        raise WrongBody(f"{field}.content must not be null", f"{field}.content")
    content = text(said.content, f"{field}.content") or said.refusal or ""
    if role == "tool":
        name = said.name or names.get(said.tool_call_id or "")
        return Message("tool", content, name, tool_call_id=said.tool_call_id)
    calls = _calls(said, field) if role == "assistant" else ()
    return Message(role, content, said.name, calls)


def _calls(said: ChatMessage, field: str) -> tuple[ToolCall, ...]:
    if said.function_call and not said.tool_calls:
        return (_call(Call(said.function_call), f"{field}.function_call"),)
    calls = enumerate(said.tool_calls or ())
    return tuple(_call(call, f"{field}.tool_calls[{i}].function") for i, call in calls)


def _part(part: str | Part, field: str) -> str:
    if isinstance(part, str):
        return part
    if part.type == "refusal":
        return part.refusal or ""
    if part.type not in TEXTS:
        raise Refused(f"{field} is of type {short(part.type)}, and the served model reads text only", field)
    if part.text is None:
        raise WrongBody(f"{field} is of type {part.type} but has no text", field)
    return part.text


def _call(call: Call, field: str) -> ToolCall:
    given = call_arguments(call.function.arguments, f"{field}.arguments")
    return ToolCall(call.id or "", call.function.name, given)
