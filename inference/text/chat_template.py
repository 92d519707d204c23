"""Renders conversations with the model's chat template, or in a plain format if the model has none.

Detects what a template supports by rendering probes. Knows templates; knows no models.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import reduce
from inspect import signature
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase
from transformers.utils.chat_template_utils import render_jinja_template

from inference.content import TextPart, content_text, parts_of
from inference.errors import BadRequest
from inference.text import tool_prompt as words
from inference.text.message_rewrites import (
    Messages,
    Rewrite,
    with_short_ids,
    with_system_first,
    with_tools_as_text,
    with_turns,
    without_system,
)
from inference.types import Message, Role, TemplateOptions, Tool, ToolCall, ToolFormat

PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message.role | capitalize }}: {{ message.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
PLAIN_REASON = "the model has no chat template: turns are written as User: and Assistant:"
PLAIN_STOPS = ("\nUser:", "\nSystem:")

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
# A template is third-party code and may raise any of these.
TEMPLATE_ERRORS = (
    TemplateError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)

DEFAULT_TEMPLATE = TemplateOptions()
# Parameters of the functions that call a template. Users may set only `documents`.
RESERVED_ARGUMENTS = {
    "self",
    "messages",
    "conversations",
    *signature(PreTrainedTokenizerBase.apply_chat_template).parameters,
    *signature(render_jinja_template).parameters,
} - {"kwargs", "documents"}

MARKER = "xylograph"  # a word that occurs in no template
PROBE_TOOL = Tool(
    MARKER, MARKER, {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
)
PROBE_MESSAGE = Message("user", MARKER)
PROBE_CALL_MESSAGES = (
    Message("user", "Hi"),
    Message("assistant", "", tool_calls=(ToolCall("callnumb1", MARKER, '{"a": "b"}'),)),
    Message("tool", MARKER, name="f", tool_call_id="callnumb1"),
)
PART_MARKERS = "mezzotint", "aquatint"  # words that occur in no template
PROBE_PARTS = tuple(map(TextPart, PART_MARKERS))
# Role → a conversation whose message of this role has several parts.
PART_CONVERSATIONS: Mapping[Role, Messages] = {
    "system": (Message("system", PROBE_PARTS), PROBE_MESSAGE),
    "user": (Message("user", PROBE_PARTS),),
    "assistant": (PROBE_MESSAGE, Message("assistant", PROBE_PARTS), PROBE_MESSAGE),
    "tool": (*PROBE_CALL_MESSAGES[:2], replace(PROBE_CALL_MESSAGES[2], content=PROBE_PARTS)),
}


class ChatTemplate:
    """A tokenizer's chat template.

    source              the template's text; all texts if the tokenizer has several templates
    fallback_reason     why the plain format is used; empty if the model has a template
    stops               stop strings of the plain format: without them the model would write the next turn
    uses_content_parts  contents must be lists of parts, as for models of text and images
    part_roles          by whether the prompt has tools: the roles whose messages may have several parts,
                        because the template iterates over them
    supports_tools      the template describes tools
    supports_calls      the template renders tool calls and their results
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        is_plain = not tokenizer.chat_template
        self.template = PLAIN_TEMPLATE if is_plain else None
        self.source = str(self.template or tokenizer.chat_template)
        self.fallback_reason = PLAIN_REASON if is_plain else ""
        self.stops = PLAIN_STOPS if is_plain else ()
        self.uses_content_parts = not self.renders(
            [PROBE_MESSAGE], 1, uses_content_parts=False
        ) and self.renders([PROBE_MESSAGE], 1, uses_content_parts=True)
        self.supports_tools = self.renders([PROBE_MESSAGE], 2, self.uses_content_parts, (PROBE_TOOL,))
        self.supports_calls = self.renders(PROBE_CALL_MESSAGES, 2, self.uses_content_parts)
        self.part_roles = {False: self._part_roles(()), True: self._part_roles((PROBE_TOOL,))}

    def render(
        self,
        messages: Messages,
        tools: Sequence[Tool] = (),
        tool_format: ToolFormat | None = None,
        template: TemplateOptions = DEFAULT_TEMPLATE,
    ) -> str:
        """The prompt. By default it ends where the assistant's message starts; see TemplateOptions.

        Raises BadRequest if the template refuses the messages, or the options are impossible.
        """
        check_template(template, messages)
        prompt_format: ToolFormat = tool_format or "json"
        tools_in_prompt = bool(tools) and not self.describes_tools(tool_format)
        if tools_in_prompt:
            messages = with_system_first(
                [Message("system", words.describe_tools(tools, prompt_format)), *messages]
            )
        if tools_in_prompt or not self.supports_calls:
            messages = with_tools_as_text(messages, prompt_format)
        return self._render(messages, () if tools_in_prompt else tools, template)

    def describes_tools(self, tool_format: ToolFormat | None) -> bool:
        """Whether the model's template describes the tools. If not, tool_prompt.py does."""
        return self.supports_tools and tool_format in (None, "json")

    def _render(self, messages: Messages, tools: Sequence[Tool], template: TemplateOptions) -> str:
        errors: list[Exception] = []
        incomplete = ""
        part_roles = self.part_roles[bool(tools)]
        for rewrites in ATTEMPTS:
            rewritten_messages = reduce(lambda rewritten, rewrite: rewrite(rewritten), rewrites, messages)
            rendered_messages = with_joined_parts(rewritten_messages, part_roles)
            try:
                text = self._apply(rendered_messages, self.uses_content_parts, tools, template)
            except TEMPLATE_ERRORS as error:
                errors.append(error)
                continue
            if renders_system(text, rendered_messages):
                return text
            incomplete = incomplete or text
        if not incomplete:
            raise BadRequest("messages", f"are refused by the model's chat template: {first_line(errors[0])}")
        return incomplete

    def _apply(
        self,
        messages: Messages,
        uses_content_parts: bool,
        tools: Sequence[Tool],
        template: TemplateOptions = DEFAULT_TEMPLATE,
    ) -> str:
        return self.tokenizer.apply_chat_template(
            [message_to_dict(message, uses_content_parts) for message in messages],
            tools=[words.tool_schema(tool) for tool in tools] or None,
            chat_template=self.template,
            add_generation_prompt=template.add_generation_prompt and not template.continue_final_message,
            continue_final_message=template.continue_final_message,
            tokenize=False,
            **template.arguments,
        )

    def renders(
        self, messages: Messages, min_count: int, uses_content_parts: bool, tools: Sequence[Tool] = ()
    ) -> bool:
        """Whether the rendered text contains the MARKER at least min_count times."""
        try:
            return self._apply(messages, uses_content_parts, tools).count(MARKER) >= min_count
        except TEMPLATE_ERRORS:
            return False

    def _part_roles(self, tools: Sequence[Tool]) -> frozenset[Role]:
        """The roles whose messages may have several parts: the template writes all texts, and no list."""
        roles: set[Role] = set()
        first, second = PART_MARKERS
        for role, messages in PART_CONVERSATIONS.items():
            try:
                text = self._apply(messages, self.uses_content_parts, tools)
            except TEMPLATE_ERRORS:
                continue
            between, is_complete, _ = text.partition(first)[2].partition(second)
            if is_complete and "type" not in between:
                roles.add(role)
        return frozenset(roles)


def check_template(template: TemplateOptions, messages: Messages) -> None:
    """Raises BadRequest for messages or options that are impossible with every template."""
    if not messages:
        raise BadRequest("messages", "must hold at least one message")
    if template.continue_final_message and messages[-1].role != "assistant":
        rule = "must end with a message of the assistant, which continue_final_message continues"
        raise BadRequest("messages", rule, messages[-1].role)
    if reserved_names := sorted(RESERVED_ARGUMENTS.intersection(template.arguments)):
        raise BadRequest("chat_template_kwargs", f"must not set {reserved_names[0]!r}, which the server sets")


def first_line(error: Exception) -> str:
    """The first line of the error; the other lines may contain the whole conversation."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def renders_system(text: str, messages: Messages) -> bool:
    """Whether the text contains every system message: some templates omit unexpected ones."""
    position = 0
    for message in messages:
        if message.role == "system":
            for each in parts_of(message.content):
                position = text.find(each.text.strip(), position)
                if position < 0:
                    return False
    return True


def with_joined_parts(messages: Messages, part_roles: Set[Role]) -> Messages:
    """The parts of a message become one text, except in these roles. Parts beside a tool call do so in every
    role: templates write that content in a place of its own.
    """
    return [
        message
        if isinstance(message.content, str) or (message.role in part_roles and not message.tool_calls)
        else replace(message, content=content_text(message.content))
        for message in messages
    ]


def message_to_dict(message: Message, uses_content_parts: bool) -> dict[str, Any]:
    """A message as a dict. Fields without a value are absent: templates test whether a key exists."""
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
        fields["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": words.parse_arguments(call)},
            }
            for call in message.tool_calls
        ]
    return fields
