"""Conversations reshaped for chat templates that do not take every kind of message.

Each function keeps all that is said. Knows messages, no template.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import groupby

from inference.text import tools
from inference.types import Message, ToolFormat

Messages = Sequence[Message]
Reshape = Callable[[Messages], Messages]


def with_tools_as_text(messages: Messages, how: ToolFormat = "json") -> Messages:
    """Calls become what the assistant said, results what the user says."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}

    def plain(message: Message) -> Message:
        if message.role == "tool":
            name = message.name or names.get(message.tool_call_id or "", "the function")
            return Message("user", f"Result of {name}:\n{message.content}")
        if not message.tool_calls:
            return message
        return Message(message.role, joined(message.content, tools.write(message.tool_calls, how)))

    return [plain(message) for message in messages]


def with_short_ids(messages: Messages) -> Messages:
    """Ids of calls become nine letters and digits, which is what Mistral's templates take."""

    def short(message: Message) -> Message:
        calls = tuple(replace(call, id=nine(call.id)) for call in message.tool_calls)
        answered = message.tool_call_id
        return replace(message, tool_calls=calls, tool_call_id=nine(answered) if answered else answered)

    return [short(message) for message in messages]


def nine(id: str) -> str:
    return sha256(id.encode(errors="replace")).hexdigest()[:9]


def with_system_first(messages: Messages) -> Messages:
    """All that the system says, in one message at the head."""
    system = [message.content for message in messages if message.role == "system"]
    others = [message for message in messages if message.role != "system"]
    return [Message("system", joined(*system)), *others] if system else others


def without_system(messages: Messages) -> Messages:
    """What the system says becomes the beginning of what the user says first."""
    head, *rest = with_system_first(messages)
    if head.role != "system":
        return messages
    first = next((place for place, message in enumerate(rest) if message.role == "user"), None)
    if first is None:
        return [Message("user", head.content), *rest]
    told = replace(rest[first], content=joined(head.content, rest[first].content))
    return [*rest[:first], told, *rest[first + 1 :]]


def with_turns(messages: Messages) -> Messages:
    """User and assistant in turn, the user first: neighbours of one role become one message."""
    turns = [merged(list(group)) for _, group in groupby(messages, key=speaker)]
    first = next((place for place, turn in enumerate(turns) if turn.role != "system"), None)
    if first is not None and turns[first].role == "assistant":
        turns.insert(first, Message("user", ""))
    return turns


def speaker(message: Message) -> str:
    """Results of two calls are two messages, though one role tells them."""
    return f"tool {message.tool_call_id}" if message.role == "tool" else message.role


def merged(messages: Messages) -> Message:
    calls = tuple(call for message in messages for call in message.tool_calls)
    return replace(messages[0], content=joined(*(message.content for message in messages)), tool_calls=calls)


def joined(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)
