"""Rewrites of conversations for chat templates that do not support every kind of message.

Each rewrite keeps the contents of all messages; only without_reasoning leaves something out. Knows messages;
knows no templates.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import groupby

from inference.content import concatenate, join_contents
from inference.text import tool_prompt
from inference.types import Message, ToolCall, ToolFormat

Messages = Sequence[Message]
Rewrite = Callable[[Messages], Messages]


def with_tools_as_text(messages: Messages, tool_format: ToolFormat = "json") -> Messages:
    """Tool calls become text of the assistant; their results become messages of the user."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}

    def plain(message: Message) -> Message:
        if message.role == "tool":
            name = message.name or names.get(message.tool_call_id or "", "the function")
            return Message("user", concatenate(f"Result of {name}:\n", message.content))
        if not message.tool_calls:
            return message
        return Message(
            message.role,
            join_contents(message.content, tool_prompt.write_calls(message.tool_calls, tool_format)),
            reasoning=message.reasoning,
        )

    return [plain(message) for message in messages]


def has_object_arguments(message: Message) -> bool:
    return all(tool_prompt.parse_arguments(call) is not None for call in message.tool_calls)


def with_object_arguments(messages: Messages) -> Messages:
    """The arguments of every tool call become a JSON object."""

    def with_object(call: ToolCall) -> ToolCall:
        if tool_prompt.parse_arguments(call) is not None:
            return call
        return replace(call, arguments=json.dumps(tool_prompt.arguments_object(call), ensure_ascii=False))

    return [replace(message, tool_calls=tuple(map(with_object, message.tool_calls))) for message in messages]


def without_reasoning(messages: Messages) -> Messages:
    return [replace(message, reasoning="") for message in messages]


def with_short_ids(messages: Messages) -> Messages:
    """Ids of tool calls become nine letters and digits, as Mistral's templates require."""

    def with_short_id(message: Message) -> Message:
        calls = tuple(replace(call, id=short_id(call.id)) for call in message.tool_calls)
        call_id = message.tool_call_id
        return replace(message, tool_calls=calls, tool_call_id=short_id(call_id) if call_id else call_id)

    return [with_short_id(message) for message in messages]


def short_id(id: str) -> str:
    return sha256(id.encode(errors="replace")).hexdigest()[:9]


def with_system_first(messages: Messages) -> Messages:
    """All system messages become one, at the start."""
    system = [message.content for message in messages if message.role == "system"]
    others = [message for message in messages if message.role != "system"]
    return [Message("system", join_contents(*system)), *others] if system else others


def without_system(messages: Messages) -> Messages:
    """The system messages become the start of the first user message."""
    system_message, *rest = with_system_first(messages)
    if system_message.role != "system":
        return messages
    first_user = next((position for position, message in enumerate(rest) if message.role == "user"), None)
    if first_user is None:
        return [Message("user", system_message.content), *rest]
    first_user_message = replace(
        rest[first_user], content=join_contents(system_message.content, rest[first_user].content)
    )
    return [*rest[:first_user], first_user_message, *rest[first_user + 1 :]]


def with_turns(messages: Messages) -> Messages:
    """User and assistant alternate, the user first: adjacent messages of one role become one."""
    turns = [merge_messages(list(group)) for _, group in groupby(messages, key=speaker)]
    first_turn = next((position for position, turn in enumerate(turns) if turn.role != "system"), None)
    if first_turn is not None and turns[first_turn].role == "assistant":
        turns.insert(first_turn, Message("user", ""))
    return turns


def speaker(message: Message) -> str:
    """The key of a turn. The results of two calls have different keys, and so stay two messages."""
    return f"tool {message.tool_call_id}" if message.role == "tool" else message.role


def merge_messages(messages: Messages) -> Message:
    calls = tuple(call for message in messages for call in message.tool_calls)
    return replace(
        messages[0],
        content=join_contents(*(message.content for message in messages)),
        tool_calls=calls,
        reasoning="\n\n".join(message.reasoning for message in messages if message.reasoning),
    )


# Rewrites of a conversation, tried in this order until the template accepts one and omits nothing.
ATTEMPTS: tuple[tuple[Rewrite, ...], ...] = (
    (),
    (with_system_first,),
    (with_system_first, with_short_ids),
    (with_system_first, with_short_ids, with_turns),
    (without_system, with_short_ids, with_turns),
    (with_system_first, with_tools_as_text, with_turns),
    (without_system, with_tools_as_text, with_turns),
)
# The reasoning of earlier answers is left out before anything else is rewritten.
REASONING_ATTEMPTS = (
    ATTEMPTS[0],
    (without_reasoning,),
    *ATTEMPTS[1:],
    *((without_reasoning, *rewrites) for rewrites in ATTEMPTS[1:]),
)
