"""Messages as the dicts that a chat template reads.

Knows the keys that the templates of published models read; knows no template itself.
"""

from collections.abc import Set
from dataclasses import replace
from itertools import chain
from typing import Any

from inference.content import content_text, parts_of
from inference.text.message_rewrites import Messages
from inference.text.tool_prompt import parse_arguments
from inference.types import Message, Role, ToolCall

REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")  # a template reads one of them, if any


def message_to_dict(
    message: Message, uses_content_parts: bool, uses_thinking_parts: bool = False
) -> dict[str, Any]:
    """A message as a dict. Fields without a value are absent: templates test whether a key exists.

    uses_thinking_parts  reasoning is a content part, not a field of the message
    """
    optional_fields = {"name": message.name, "tool_call_id": message.tool_call_id}
    is_list = uses_content_parts or not isinstance(message.content, str)
    content = (
        [{"type": "text", "text": each.text} for each in parts_of(message.content)]
        if is_list
        else message.content
    )
    fields: dict[str, Any] = {"role": message.role, "content": content}
    fields |= {key: value for key, value in optional_fields.items() if value is not None}
    if message.tool_calls:
        fields["tool_calls"] = [_call_to_dict(call) for call in message.tool_calls]
    if message.reasoning:
        fields |= (
            _reasoning_fields(message)
            if uses_thinking_parts
            else dict.fromkeys(REASONING_KEYS, message.reasoning)
        )
    return fields


def _call_to_dict(call: ToolCall) -> dict[str, Any]:
    values = parse_arguments(call)
    function = {"name": call.name, "arguments": call.arguments if values is None else values}
    return {"id": call.id, "type": "function", "function": function}


def _reasoning_fields(message: Message) -> dict[str, Any]:
    thinking = {"type": "thinking", "thinking": message.reasoning}
    text_parts = parts_of(message.content) if message.content else ()
    return {"content": [thinking, *({"type": "text", "text": each.text} for each in text_parts)]}


def with_joined_parts(messages: Messages, part_roles: Set[Role]) -> Messages:
    """The messages, each with its parts as one text, except in these roles.

    Parts beside a tool call become one text in every role: templates write that content in a place of its
    own.
    """
    return [
        message
        if isinstance(message.content, str) or (message.role in part_roles and not message.tool_calls)
        else replace(message, content=content_text(message.content))
        for message in messages
    ]


def renders_system(text: str, messages: Messages) -> bool:
    """Whether the text contains every system message: some templates omit unexpected ones."""
    position = 0
    system_messages = [message for message in messages if message.role == "system"]
    for content_part in chain.from_iterable(parts_of(message.content) for message in system_messages):
        position = text.find(content_part.text.strip(), position)
        if position < 0:
            return False
    return True
