"""The messages and tools of a row, parsed from JSON to the types that the chat template gets.

Every error is a BadRequest that names the key of the row. Knows the shapes of OpenAI's chats, of ShareGPT's
(`from` and `value`), and either of them as JSON text.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inference.content import TEXT_TYPES, MessageContent, TextPart, content_of
from inference.errors import BadRequest
from inference.text.template_messages import REASONING_KEYS
from inference.types import Message, Role, Tool, ToolCall
from tuning.data.strict_json import InvalidJson, parse_row_json

MAX_MESSAGES = 500  # of a conversation: masks take time that grows with their square
MAX_TOOLS = 500
ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "tool": "tool",
    "function": "tool",
    "observation": "tool",
}
KNOWN_ROLES = "system, developer, user, assistant or tool"
MESSAGE_KEYS = frozenset(
    ("role", "content", "from", "value", "name", "tool_calls", "tool_call_id", "weight", *REASONING_KEYS)
)
NO_CALL = "must be a tool call: {id, function: {name, arguments}}"


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages, and the tools that they may call.

    trained_indices  of the messages to train, which are the assistant's without weight 0; ascending
    """

    messages: tuple[Message, ...]
    trained_indices: tuple[int, ...]
    tools: tuple[Tool, ...] = ()


def parse_conversation(value: Any, tools: Any = None, key: str = "messages") -> Conversation:
    """The conversation of a row. Raises BadRequest, also if there is no answer to train."""
    items = json_list(value, key)
    messages = parse_messages(items, key)
    trained_indices = [
        i for i, message in enumerate(messages) if message.role == "assistant" and items[i].get("weight") != 0
    ]
    if not trained_indices:
        has_answer = any(message.role == "assistant" for message in messages)
        rule = "has only messages of the assistant with weight 0" if has_answer else "has no message of the"
        fix = "" if has_answer else " assistant, which is what is trained"
        raise BadRequest(key, rule + (fix or ": give one of them weight 1"))
    return Conversation(messages, tuple(trained_indices), parse_tools(tools))


def parse_messages(value: Any, key: str) -> tuple[Message, ...]:
    """Messages without the rule that the assistant has one of them. Raises BadRequest."""
    items = json_list(value, key)
    if not items:
        raise BadRequest(key, "must have at least one message")
    if len(items) > MAX_MESSAGES:
        raise BadRequest(
            key, f"may have at most {MAX_MESSAGES} messages: divide the conversation", len(items)
        )
    return tuple(parse_message(item, f"{key}[{i}]") for i, item in enumerate(items))


def json_list(value: Any, key: str) -> Sequence[Any]:
    """A list, or one that JSON text has, as in columns of CSV. Raises BadRequest."""
    if isinstance(value, str):
        try:
            value = parse_row_json(value)
        except InvalidJson as error:
            raise BadRequest(key, f"must be a list, or a list as JSON text: it {error}") from None
    if not isinstance(value, list):
        raise BadRequest(key, "must be a list", value)
    return value


def parse_message(value: Any, key: str) -> Message:
    if not isinstance(value, dict):
        raise BadRequest(key, "must be an object with role and content", value)
    role_key, content_key = (
        ("from", "value") if "from" in value and "role" not in value else ("role", "content")
    )
    role = parse_role(value.get(role_key), f"{key}.{role_key}")
    check_weight(value.get("weight"), role, f"{key}.weight")
    calls = parse_calls(value.get("tool_calls"), f"{key}.tool_calls")
    if calls and role != "assistant":
        raise BadRequest(f"{key}.tool_calls", "may only be in a message of the assistant", role)
    content = value.get(content_key)
    if content is None and not calls:
        raise BadRequest(f"{key}.{content_key}", "must be text: only a message with tool_calls may lack it")
    return Message(
        role,
        parse_content(content, f"{key}.{content_key}"),
        optional_text(value, "name", key),
        calls,
        optional_text(value, "tool_call_id", key),
        next(filter(None, (optional_text(value, name, key) for name in REASONING_KEYS)), ""),
    )


def parse_role(value: Any, key: str) -> Role:
    role = ROLES.get(value) if isinstance(value, str) else None
    if role is None:
        raise BadRequest(key, f"must be {KNOWN_ROLES}", value)
    return role


def check_weight(value: Any, role: str, key: str) -> None:
    if value is None:
        return
    if type(value) not in (int, float) or value not in (0, 1):
        raise BadRequest(key, "must be 0 or 1", value)
    if value == 1 and role != "assistant":
        raise BadRequest(key, "may be 1 only in a message of the assistant: others are not trained", role)


def parse_content(value: Any, key: str) -> MessageContent:
    """Text, or parts that are text; null is empty."""
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, list):
        raise BadRequest(key, "must be text or a list of text parts", value)
    return content_of(TextPart(parse_part(item, f"{key}[{i}]")) for i, item in enumerate(value))


def parse_part(value: Any, key: str) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        raise BadRequest(key, "must be a part with type and text", value)
    if value.get("type") not in TEXT_TYPES:
        raise BadRequest(
            f"{key}.type", "must be text: only text can be trained, no images", value.get("type")
        )
    return text_of(value.get("text"), f"{key}.text")


def text_of(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise BadRequest(key, "must be text", value)
    return value


def optional_text(value: Mapping[str, Any], name: str, key: str) -> str | None:
    return None if value.get(name) is None else text_of(value[name], f"{key}.{name}")


def parse_calls(value: Any, key: str) -> tuple[ToolCall, ...]:
    items = [] if value is None else json_list(value, key)
    return tuple(parse_call(item, f"{key}[{i}]") for i, item in enumerate(items))


def parse_call(value: Any, key: str) -> ToolCall:
    """A call as OpenAI writes it, or its function alone."""
    function = value.get("function", value) if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(function, dict) or not function.get("name"):
        raise BadRequest(key, NO_CALL, value)
    return ToolCall(
        optional_text(value, "id", key) or "",
        text_of(function["name"], f"{key}.function.name"),
        parse_arguments(function.get("arguments"), f"{key}.function.arguments"),
    )


def parse_arguments(value: Any, key: str) -> str:
    """JSON text of an object; null and an empty text are an empty one. Raises BadRequest."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return "{}"
    try:
        arguments = parse_row_json(value) if isinstance(value, str) else value
    except InvalidJson as error:
        raise BadRequest(key, f"must be an object, or one as JSON text: it {error}") from None
    if not isinstance(arguments, dict):
        raise BadRequest(key, "must be an object, or one as JSON text", value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def parse_tools(value: Any) -> tuple[Tool, ...]:
    """The tools of a row: a list of OpenAI's definitions, or of their functions alone; or its JSON text."""
    items = [] if value is None or value == "" else json_list(value, "tools")
    if len(items) > MAX_TOOLS:
        raise BadRequest("tools", f"may have at most {MAX_TOOLS} tools", len(items))
    return tuple(parse_tool(item, f"tools[{i}]") for i, item in enumerate(items))


def parse_tool(value: Any, key: str) -> Tool:
    function = value.get("function", value) if isinstance(value, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise BadRequest(key, "must be a function: {type, function: {name, description, parameters}}", value)
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    if not isinstance(parameters, dict):
        raise BadRequest(f"{key}.function.parameters", "must be a JSON schema", parameters)
    description = optional_text(function, "description", f"{key}.function") or ""
    definition = value if function is not value else {"type": "function", "function": function}
    return Tool(function["name"], description, parameters, definition)


def unread_keys(items: Any) -> Iterator[str]:
    """The keys of messages that nothing reads, null values aside."""
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            yield from (
                name for name, value in item.items() if name not in MESSAGE_KEYS and value is not None
            )
