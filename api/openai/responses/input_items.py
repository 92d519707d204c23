"""Converts the input items of a response to chat messages.

Items of unknown types are left out: they come from tools that other servers run, such as web_search_call.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from api.openai.errors import InvalidBody
from api.openai.protocol.chat import CalledFunction, ChatMessage, Content, ContentPart, ToolCallParam
from api.openai.requests.messages import ROLES, call_arguments, parse_content
from api.openai.responses.protocol import AgentContentPart, InputItem, ResponsesRequest
from api.openai.responses.summary import decode_summary
from api.openai.responses.tools import INPUT, convert_field, function_name
from inference.errors import short

CONTENT_TYPES = ("input_text", "input_image", "input_file")  # parts that transformers' server reads as items
SUMMARY_INTRODUCTION = "Summary of the conversation so far:\n"
UNREADABLE_TYPES = ("input_image", "input_file")  # content parts of a tool's output


def to_chat_messages(body: ResponsesRequest, field: str = "input") -> list[ChatMessage]:
    """A tool call is added to the assistant's message before it, reasoning to the message behind it.

    Raises InvalidBody, InvalidParameter.

    field  name of the items in error messages
    """
    messages: list[ChatMessage] = []
    for i, item in _gather_content_parts(body.items):
        parse_item = ITEM_PARSERS.get(item.type or "message")
        message = parse_item(item, f"{field}[{i}]") if parse_item else None
        if message is None:
            continue
        if message.tool_calls and messages and messages[-1].role == "assistant":
            messages[-1].tool_calls = [*(messages[-1].tool_calls or ()), *message.tool_calls]
            continue
        if messages and _is_reasoning(messages[-1]):
            reasoning = messages.pop().reasoning_content
            if message.role == "assistant":
                message.reasoning_content = reasoning + (message.reasoning_content or "")
        messages.append(message)
    if messages and _is_reasoning(messages[-1]):
        messages.pop()
    system_messages = [ChatMessage("system", body.instructions)] if body.instructions else []
    return system_messages + messages


def _gather_content_parts(items: Sequence[InputItem]) -> Iterator[tuple[int, InputItem]]:
    """The items with their places; adjacent content parts become one message of the user."""
    for is_content, group in groupby(enumerate(items), key=lambda entry: entry[1].type in CONTENT_TYPES):
        entries = list(group)
        if is_content:
            content = [{"type": item.type, "text": item.text} for _, item in entries]
            entries = [(entries[0][0], InputItem(role="user", content=content))]
        yield from entries


def _message(item: InputItem, field: str) -> ChatMessage:
    if item.role not in ROLES:
        rule = f"must be one of {', '.join(ROLES)}, got {short(item.role)}"
        raise InvalidBody(f"{field}.role {rule}", f"{field}.role")
    content: Content = convert_field(item.content or "", Content, f"{field}.content")
    return ChatMessage(item.role, _checked(content, f"{field}.content"))


def _reasoning(item: InputItem, field: str) -> ChatMessage | None:
    """Its text alone, for the assistant's message behind it. None: it has none that can be read here."""
    content: Content = convert_field(item.content or "", Content, f"{field}.content")
    texts = [content] if isinstance(content, str) else map(_part_text, content)
    reasoning = "".join(texts)
    return ChatMessage("assistant", reasoning_content=reasoning) if reasoning else None


def _part_text(content_part: str | ContentPart) -> str:
    return content_part if isinstance(content_part, str) else content_part.text or ""


def _is_reasoning(message: ChatMessage) -> bool:
    """Whether the message is reasoning, and nothing else so far."""
    return bool(message.reasoning_content) and message.content is None and not message.tool_calls


def _agent_message(item: InputItem, field: str) -> ChatMessage:
    """A message that another agent wrote to this one: for the model, a user's message."""
    content: str | list[AgentContentPart]
    content = convert_field(item.content or "", str | list[AgentContentPart], f"{field}.content")
    texts: Content = content if isinstance(content, str) else [_agent_text(each) for each in content]
    return ChatMessage("user", _checked(texts, f"{field}.content"))


def _agent_text(content_part: AgentContentPart) -> str | ContentPart:
    """What an agent wrote is marked as encrypted, although this server did not encrypt it."""
    encrypted_text = content_part.encrypted_content
    return _readable(content_part) if encrypted_text is None else encrypted_text


def _compaction(item: InputItem, field: str) -> ChatMessage | None:
    """The summary of the turns that a compaction has replaced: for the model, a user's message.

    None: another server made it, and it cannot be read here.
    """
    summary = decode_summary(item.encrypted_content or "")
    return None if summary is None else ChatMessage("user", SUMMARY_INTRODUCTION + summary)


def _function_call(item: InputItem, field: str) -> ChatMessage:
    return _call(item, call_arguments(item.arguments), field)


def _custom_call(item: InputItem, field: str) -> ChatMessage:
    return _call(item, json.dumps({INPUT: item.input or ""}, ensure_ascii=False), field)


def _call(item: InputItem, arguments: str, field: str) -> ChatMessage:
    if not item.name or not item.call_id:
        raise InvalidBody(f"{field} needs a name and a call_id", field)
    function = CalledFunction(function_name(item.name, item.namespace), arguments)
    return ChatMessage("assistant", tool_calls=[ToolCallParam(function, item.call_id)])


def _result(item: InputItem, field: str) -> ChatMessage:
    if not item.call_id or item.output is None:
        raise InvalidBody(f"{field} needs a call_id and an output", field)
    output: Content = convert_field(item.output, Content, f"{field}.output")
    if not isinstance(output, str):
        output = [_readable(content_part) for content_part in output]
    return ChatMessage("tool", _checked(output, f"{field}.output"), tool_call_id=item.call_id)


def _checked(content: Content, field: str) -> Content:
    """Raises errors that name the field of this body, not that of the chat message."""
    parse_content(content, field)
    return content


def _readable(content_part: str | ContentPart) -> str | ContentPart:
    """The part, or a note in place of an image or file: an agent sends it again in every request."""
    if isinstance(content_part, str) or content_part.type not in UNREADABLE_TYPES:
        return content_part
    return ContentPart(text=f"[{content_part.type} left out: the served model reads text only]")


ITEM_PARSERS: dict[str, Callable[[InputItem, str], ChatMessage | None]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "function_call_output": _result,
    "custom_tool_call": _custom_call,
    "custom_tool_call_output": _result,
    "agent_message": _agent_message,
    "compaction": _compaction,
    "compaction_summary": _compaction,
}
