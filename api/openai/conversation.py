"""What a conversation is made of in OpenAI's words: messages, their parts, tools and calls. Only shapes.

Unknown fields are ignored, and every optional field may be null.
"""

from typing import Any

from msgspec import Struct


class Part(Struct):
    """A piece of a message's content: `{"type": "text", "text": …}`; images and sounds are refused."""

    type: str = "text"
    text: str | None = None
    refusal: str | None = None


Content = str | list[str | Part]


class CalledFunction(Struct):
    """Which function was called; `arguments` is an object or its JSON text."""

    name: str
    arguments: str | dict[str, Any] | None = None


class Call(Struct):
    """A tool call of an earlier answer."""

    function: CalledFunction
    id: str | None = None
    type: str | None = None


class ChatMessage(Struct):
    """One message.

    role          system (or developer), user, assistant or tool
    content       text, or a list of parts of text; null beside tool_calls, and where a tool tells nothing
    name          who speaks; of a tool's result, which tool
    tool_calls    what the assistant called; function_call before there were tools
    tool_call_id  which call a tool's result answers
    refusal       what the assistant said instead of an answer
    """

    role: str
    content: Content | None = None
    name: str | None = None
    tool_calls: list[Call] | None = None
    function_call: CalledFunction | None = None
    tool_call_id: str | None = None
    refusal: str | None = None


class Function(Struct):
    """A function the model may call; `parameters` is a JSON schema of type object."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolDef(Struct):
    """A tool: always a function."""

    function: Function
    type: str = "function"


class NamedFunction(Struct):
    name: str


class NamedTool(Struct):
    """A tool the answer must call."""

    function: NamedFunction
    type: str = "function"
