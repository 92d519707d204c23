"""Conversations that show what a chat template supports."""

from collections.abc import Mapping
from dataclasses import replace

from inference.content import TextPart
from inference.text.message_rewrites import Messages
from inference.types import Message, Role, Tool, ToolCall

MARKER = "xylograph"  # a word that occurs in no template
UNKNOWN_CHAR = "\U0002a6c6"  # one that occurs in no template
PROBE_TOOL = Tool(
    MARKER, MARKER, {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
)
PROBE_MESSAGE = Message("user", MARKER)
PROBE_CALL_MESSAGES = (
    Message("user", "Hi"),
    Message("assistant", "", tool_calls=(ToolCall("callnumb1", MARKER, '{"a": "b"}'),)),
    Message("tool", MARKER, name="f", tool_call_id="callnumb1"),
)
PROBE_TEXT_ARGUMENTS = (
    PROBE_CALL_MESSAGES[0],
    Message("assistant", "", tool_calls=(ToolCall("callnumb1", "f", MARKER),)),
)
PROBE_REASONING = (
    Message("user", "Hi"),
    Message("assistant", "Ho", reasoning=MARKER),
)
PROBE_TURNS = (PROBE_MESSAGE, Message("assistant", MARKER), PROBE_MESSAGE)
PART_MARKERS = "mezzotint", "aquatint"  # words that occur in no template
PROBE_PARTS = tuple(map(TextPart, PART_MARKERS))
# Role → a conversation whose message of this role has several parts.
PART_CONVERSATIONS: Mapping[Role, Messages] = {
    "system": (Message("system", PROBE_PARTS), PROBE_MESSAGE),
    "user": (Message("user", PROBE_PARTS),),
    "assistant": (PROBE_MESSAGE, Message("assistant", PROBE_PARTS), PROBE_MESSAGE),
    "tool": (*PROBE_CALL_MESSAGES[:2], replace(PROBE_CALL_MESSAGES[2], content=PROBE_PARTS)),
}
