"""Conversations to prompts, by the model's own chat template; a plain format where it has none.

What a template takes is tried out, never guessed. Knows templates, not the models behind them.
"""

from collections.abc import Sequence
from functools import reduce
from inspect import signature
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase
from transformers.utils.chat_template_utils import render_jinja_template

from inference.errors import BadRequest
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
from inference.types import Message, Template, Tool, ToolCall, ToolFormat

PLAIN = (
    "{% for message in messages %}{{ message.role | capitalize }}: {{ message.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
PLAIN_WHY = "the model has no chat template: turns are written as User: and Assistant:"
PLAIN_STOPS = ("\nUser:", "\nSystem:")

# The ways to tell a template a conversation, tried in this order until it takes one and leaves nothing out.
ATTEMPTS: tuple[tuple[Reshape, ...], ...] = (
    (),
    (with_system_first,),
    (with_system_first, with_short_ids),
    (with_system_first, with_short_ids, with_turns),
    (without_system, with_short_ids, with_turns),
    (with_system_first, with_tools_as_text, with_turns),
    (without_system, with_tools_as_text, with_turns),
)
# A template is foreign code.
REFUSALS = (
    TemplateError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)

NEXT = Template()
# Arguments of the way to a template; only its documents are the user's to give.
RESERVED = {
    "self",
    "messages",
    "conversations",
    *signature(PreTrainedTokenizerBase.apply_chat_template).parameters,
    *signature(render_jinja_template).parameters,
} - {"kwargs", "documents"}

MARK = "xylograph"  # stands in no template
TOOL = Tool(MARK, MARK, {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
ASKED = Message("user", MARK)
CALLED = (
    Message("user", "Hi"),
    Message("assistant", "", tool_calls=(ToolCall("callnumb1", MARK, '{"a": "b"}'),)),
    Message("tool", MARK, name="f", tool_call_id="callnumb1"),
)


class Chat:
    """A tokenizer's chat template.

    source  the template's text; of several, all of them
    why     empty where it is the model's own, else what stands in for it
    stops   strings that end an answer in the plain format: the model would go on with the next turn

    in_parts     contents are lists of parts, as models of text and images have it
    takes_tools  it describes tools itself
    takes_calls  it tells of calls and of their results
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        plain = not tokenizer.chat_template
        self.template = PLAIN if plain else None
        self.source = str(self.template or tokenizer.chat_template)
        self.why = PLAIN_WHY if plain else ""
        self.stops = PLAIN_STOPS if plain else ()
        self.in_parts = not self.tells([ASKED], 1, in_parts=False) and self.tells([ASKED], 1, in_parts=True)
        self.takes_tools = self.tells([ASKED], 2, self.in_parts, (TOOL,))
        self.takes_calls = self.tells(CALLED, 2, self.in_parts)

    def render(
        self,
        messages: Messages,
        tools: Sequence[Tool] = (),
        tool_format: ToolFormat | None = None,
        template: Template = NEXT,
    ) -> str:
        """The prompt behind which the assistant's next message begins, unless `template` says otherwise.

        Raises BadRequest.
        """
        check(template, messages)
        how: ToolFormat = tool_format or "json"
        ours = bool(tools) and not self.describes(tool_format)
        if ours:
            messages = with_system_first([Message("system", words.describe(tools, how)), *messages])
        if ours or not self.takes_calls:
            messages = with_tools_as_text(messages, how)
        return self._render(messages, () if ours else tools, template)

    def describes(self, tool_format: ToolFormat | None) -> bool:
        """Whether tools are described by the model's template, and not in words of ours."""
        return self.takes_tools and tool_format in (None, "json")

    def _render(self, messages: Messages, tools: Sequence[Tool], template: Template) -> str:
        refusals: list[Exception] = []
        partial = ""
        for reshapes in ATTEMPTS:
            told = reduce(lambda told, reshape: reshape(told), reshapes, messages)
            try:
                text = self._apply(told, self.in_parts, tools, template)
            except REFUSALS as error:
                refusals.append(error)
                continue
            if tells_system(text, told):
                return text
            partial = partial or text
        if not partial:
            raise BadRequest("messages", f"are refused by the model's chat template: {reason(refusals[0])}")
        return partial

    def _apply(
        self, messages: Messages, in_parts: bool, tools: Sequence[Tool], template: Template = NEXT
    ) -> str:
        return self.tokenizer.apply_chat_template(
            [as_dict(message, in_parts) for message in messages],
            tools=[words.schema(tool) for tool in tools] or None,
            chat_template=self.template,
            add_generation_prompt=template.opens and not template.continues,
            continue_final_message=template.continues,
            tokenize=False,
            **template.arguments,
        )

    def tells(self, messages: Messages, times: int, in_parts: bool, tools: Sequence[Tool] = ()) -> bool:
        """Whether the mark appears so often in what the template makes of this."""
        try:
            return self._apply(messages, in_parts, tools).count(MARK) >= times
        except REFUSALS:
            return False


def check(template: Template, messages: Messages) -> None:
    """Raises BadRequest for what no template could be given."""
    if template.continues and messages[-1].role != "assistant":
        rule = "must end with a message of the assistant's where that is to be continued"
        raise BadRequest("messages", rule, messages[-1].role)
    if taken := sorted(RESERVED.intersection(template.arguments)):
        raise BadRequest("chat_template_kwargs", f"must not set {taken[0]!r}, which the server does")


def reason(error: Exception) -> str:
    """The first line of what a template says: the others may be the whole conversation."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def tells_system(text: str, messages: Messages) -> bool:
    """Some templates pass over a system message where they do not expect one."""
    place = 0
    for message in messages:
        if message.role == "system":
            place = text.find(message.content.strip(), place)
        if place < 0:
            return False
    return True


def as_dict(message: Message, in_parts: bool) -> dict[str, Any]:
    """A message as templates take it; they test whether a key is there, not what it holds."""
    given = {"name": message.name, "tool_call_id": message.tool_call_id}
    content = [{"type": "text", "text": message.content}] if in_parts else message.content
    told: dict[str, Any] = {"role": message.role, "content": content}
    told |= {key: value for key, value in given.items() if value is not None}
    if message.tool_calls:
        told["tool_calls"] = [call_as_dict(call) for call in message.tool_calls]
    return told


def call_as_dict(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": words.arguments(call)}
    return {"id": call.id, "type": "function", "function": function}
