"""Conversations to prompts, by the model's own chat template; a plain format where it has none.

What a template silently leaves out is found once, at load. Knows templates, not the models behind them.
"""

from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError

from inference.text import tools as words
from inference.text.messages import (
    Messages,
    Reshape,
    with_short_ids,
    with_system_first,
    with_tools_as_text,
    with_turns,
    without_system,
)
from inference.types import BadRequest, Message, Tool, ToolCall, ToolFormat

PLAIN = (
    "{% for message in messages %}{{ message.role | capitalize }}: {{ message.content }}\n\n{% endfor %}"
    "Assistant:"
)
PLAIN_WHY = "the model has no chat template: turns are written as User: and Assistant:"
PLAIN_STOPS = ("\nUser:", "\nSystem:")

# Tried in this order, each on top of the last, until the template accepts the conversation.
RESHAPES: tuple[Reshape, ...] = (
    with_system_first,
    with_short_ids,
    with_turns,
    with_tools_as_text,
    without_system,
    with_turns,
)

MARK = "xylograph"  # stands in no template
TOOL = Tool(MARK, MARK, {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
ASKED = Message("user", "Hi")
CALLED = (
    ASKED,
    Message("assistant", "", tool_calls=(ToolCall("callnumb1", MARK, '{"a": "b"}'),)),
    Message("tool", MARK, name="f", tool_call_id="callnumb1"),
)


class Chat:
    """A tokenizer's chat template.

    why    empty where it is the model's own, else what stands in for it
    stops  strings that end an answer in the plain format: the model would go on with the next turn
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        plain = not tokenizer.chat_template
        self.template = PLAIN if plain else None
        self.why = PLAIN_WHY if plain else ""
        self.stops = PLAIN_STOPS if plain else ()
        self.takes_system = self._tells([Message("system", MARK), ASKED], 1)
        self.takes_tools = self._tells([ASKED], 1, (TOOL,))
        self.takes_calls = self._tells(CALLED, 2)

    def render(
        self, messages: Messages, tools: Sequence[Tool] = (), tool_format: ToolFormat | None = None
    ) -> str:
        """The prompt behind which the assistant's next message begins. Raises BadRequest."""
        how: ToolFormat = tool_format or "json"
        ours = bool(tools) and not (self.takes_tools and how == "json")
        if ours:
            messages = [Message("system", words.describe(tools, how)), *messages]
            messages = with_system_first(messages)
        if ours or not self.takes_calls:
            messages = with_tools_as_text(messages, how)
        if not self.takes_system:
            messages = without_system(messages)
        return self._render(messages, () if ours else tools)

    def _render(self, messages: Messages, tools: Sequence[Tool]) -> str:
        try:
            return self._apply(messages, tools)
        except (TemplateError, TypeError) as error:
            refusal = error
        for reshape in RESHAPES:
            messages = reshape(messages)
            try:
                return self._apply(messages, tools)
            except (TemplateError, TypeError):
                continue
        raise BadRequest("messages", f"are refused by the model's chat template: {refusal}")

    def _apply(self, messages: Messages, tools: Sequence[Tool]) -> str:
        return self.tokenizer.apply_chat_template(
            [as_dict(message) for message in messages],
            tools=[words.schema(tool) for tool in tools] or None,
            chat_template=self.template,
            add_generation_prompt=True,
            tokenize=False,
        )

    def _tells(self, messages: Messages, times: int, tools: Sequence[Tool] = ()) -> bool:
        """Whether the mark appears so often in what the template makes of this."""
        try:
            return self._apply(messages, tools).count(MARK) >= times
        except (TemplateError, TypeError, ValueError):
            return False


def as_dict(message: Message) -> dict[str, Any]:
    """A message as templates take it; they test whether a key is there, not what it holds."""
    given = {"name": message.name, "tool_call_id": message.tool_call_id}
    told: dict[str, Any] = {"role": message.role, "content": message.content}
    told |= {key: value for key, value in given.items() if value is not None}
    if message.tool_calls:
        told["tool_calls"] = [call_as_dict(call) for call in message.tool_calls]
    return told


def call_as_dict(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": words.arguments(call)}
    return {"id": call.id, "type": "function", "function": function}
