"""Renders conversations with the model's chat template, or in a plain format if the model has none.

Rewrites what the template does not support: template_features.py detects that. Knows no models.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial, reduce
from inspect import signature
from typing import Any, get_args

from transformers import PreTrainedTokenizerBase
from transformers.utils.chat_template_utils import render_jinja_template

from inference.errors import BadRequest, short
from inference.text import tool_prompt
from inference.text.message_rewrites import (
    ATTEMPTS,
    REASONING_ATTEMPTS,
    Messages,
    has_object_arguments,
    with_object_arguments,
    with_system_first,
    with_tools_as_text,
)
from inference.text.sandbox.budget import TemplateLimit
from inference.text.sandbox.environment import bound_chat_templates
from inference.text.special_tokens import MarkedText, SpecialTokenMarker
from inference.text.template_features import TEMPLATE_ERRORS, TemplateFeatures
from inference.text.template_messages import message_to_dict, renders_system, with_joined_parts
from inference.text.template_probes import PROBE_MESSAGE, PROBE_TURNS
from inference.types import Message, Role, TemplateOptions, Tool, ToolFormat

PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message.role | capitalize }}: {{ message.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
PLAIN_REASON = "the model has no chat template: turns are written as User: and Assistant:"
PLAIN_STOPS = ("\nUser:", "\nSystem:")

DEFAULT_TEMPLATE = TemplateOptions()
# Parameters of the functions that call a template. Users may set only `documents`.
RESERVED_ARGUMENTS = {
    "self",
    "messages",
    "conversations",
    *signature(PreTrainedTokenizerBase.apply_chat_template).parameters,
    *signature(render_jinja_template).parameters,
} - {"kwargs", "documents"}

ROLE_NAMES = ", ".join(get_args(Role))
KNOWN_ROLES = frozenset(get_args(Role))

bound_chat_templates()


class ChatTemplate:
    """A tokenizer's chat template.

    source           the template's text; all texts if the tokenizer has several templates
    fallback_reason  why the plain format is used; empty if the model has a template
    limit_error      the limit that the template exceeds for every conversation; empty if it does not
    stops            stop strings of the plain format: without them the model would write the next turn
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        is_plain = not tokenizer.chat_template
        self.template = PLAIN_TEMPLATE if is_plain else None
        self.source = str(self.template or tokenizer.chat_template)
        self.fallback_reason = PLAIN_REASON if is_plain else ""
        self.stops = PLAIN_STOPS if is_plain else ()
        self.limit_error = ""
        self.limit_error = self._find_limit_error()
        self.features = TemplateFeatures(self._apply)

    def render(
        self,
        messages: Messages,
        tools: Sequence[Tool] = (),
        tool_format: ToolFormat | None = None,
        template: TemplateOptions = DEFAULT_TEMPLATE,
    ) -> MarkedText:
        """The prompt. By default it ends where the assistant's message starts; see TemplateOptions.

        It is split where texts of the request spell the model's special tokens. Raises BadRequest if the
        template refuses the messages, or the options are impossible.
        """
        check_template(template, messages)
        self._check_roles(messages)
        prompt_format: ToolFormat = tool_format or "json"
        tools_in_prompt = bool(tools) and not self.describes_tools(tool_format)
        if tools_in_prompt:
            messages = with_system_first(
                [Message("system", tool_prompt.describe_tools(tools, prompt_format)), *messages]
            )
        if tools_in_prompt or not self.features.supports_calls:
            messages = with_tools_as_text(messages, prompt_format)
        if not all(map(has_object_arguments, messages)) and not self.features.supports_text_arguments:
            messages = with_object_arguments(messages)
        return self._render(messages, () if tools_in_prompt else tools, template)

    def describes_tools(self, tool_format: ToolFormat | None) -> bool:
        """Whether the model's template describes the tools. If not, tool_prompt.py does."""
        return self.features.supports_tools and tool_format in (None, "json")

    def _check_roles(self, messages: Messages) -> None:
        """Raise BadRequest for a role that the template does not render."""
        checked_roles: set[str] = set(KNOWN_ROLES)
        for i, message in enumerate(messages):
            if message.role not in checked_roles and not self.features.renders_role(message.role):
                rule = f"must be {ROLE_NAMES}, or a role that the model's chat template renders"
                raise BadRequest(f"messages[{i}].role", rule, message.role)
            checked_roles.add(message.role)

    def _render(self, messages: Messages, tools: Sequence[Tool], template: TemplateOptions) -> MarkedText:
        errors: list[Exception] = []
        incomplete: MarkedText | None = None
        features = self.features
        part_roles = features.part_roles[bool(tools)]
        has_reasoning = any(message.reasoning for message in messages)
        uses_thinking_parts = has_reasoning and features.uses_thinking_parts
        for rewrites in REASONING_ATTEMPTS if has_reasoning else ATTEMPTS:
            rewritten_messages = reduce(lambda rewritten, rewrite: rewrite(rewritten), rewrites, messages)
            rendered_messages = with_joined_parts(rewritten_messages, part_roles)
            try:
                prompt = self.special_tokens.render(
                    self._values(
                        rendered_messages, features.uses_content_parts, tools, template, uses_thinking_parts
                    ),
                    partial(self._apply_to, template),
                )
            except TemplateLimit as error:
                raise refusal(messages, error) from None
            except TEMPLATE_ERRORS as error:
                errors.append(error)
                continue
            if renders_system(prompt.text, rendered_messages):
                return prompt
            incomplete = incomplete or prompt
        if incomplete is not None:
            return incomplete
        if any(tool.definition is not None for tool in tools):
            # The template may read a description or parameters that the client has left out.
            return self._render(messages, [replace(tool, definition=None) for tool in tools], template)
        raise refusal(messages, errors[0])

    @cached_property
    def special_tokens(self) -> SpecialTokenMarker:
        """Marks the special tokens, and those that the template puts between turns: not all are special."""
        added_tokens = self.tokenizer.added_tokens_decoder.values()
        try:
            turns = self._apply(PROBE_TURNS, self.features.uses_content_parts, ())
        except TEMPLATE_ERRORS:
            turns = ""
        structural = [str(token) for token in added_tokens if token.special or str(token) in turns]
        names = {*self.tokenizer.all_special_tokens, *structural}
        return SpecialTokenMarker(names, self.features.tags(name for name in names if name in self.source))

    def _apply(
        self,
        messages: Messages,
        uses_content_parts: bool,
        tools: Sequence[Tool],
        uses_thinking_parts: bool = False,
    ) -> str:
        values = self._values(messages, uses_content_parts, tools, DEFAULT_TEMPLATE, uses_thinking_parts)
        return self._apply_to(DEFAULT_TEMPLATE, values)

    def _values(
        self,
        messages: Messages,
        uses_content_parts: bool,
        tools: Sequence[Tool],
        template: TemplateOptions,
        uses_thinking_parts: bool,
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
        """The messages, tools and further arguments as the template gets them."""
        return (
            [message_to_dict(message, uses_content_parts, uses_thinking_parts) for message in messages],
            [tool_prompt.tool_schema(tool) for tool in tools],
            template.variables,
        )

    def _apply_to(self, template: TemplateOptions, values: Any) -> str:
        if self.limit_error:
            raise TemplateLimit(self.limit_error)
        messages, tools, arguments = values
        return self.tokenizer.apply_chat_template(
            messages,
            tools=tools or None,
            chat_template=self.template,
            add_generation_prompt=template.add_generation_prompt and not template.continue_final_message,
            continue_final_message=template.continue_final_message,
            tokenize=False,
            **arguments,
        )

    def _find_limit_error(self) -> str:
        try:
            self._apply([PROBE_MESSAGE], False, ())
        except TEMPLATE_ERRORS as error:
            return first_line(error) if isinstance(error, TemplateLimit) else ""
        return ""


def check_template(template: TemplateOptions, messages: Messages) -> None:
    """Raises BadRequest for messages or options that are impossible with every template."""
    if not messages:
        raise BadRequest("messages", "must hold at least one message")
    if template.continue_final_message and messages[-1].role != "assistant":
        rule = "must end with a message of the assistant, which continue_final_message continues"
        raise BadRequest("messages", rule, messages[-1].role)
    if reserved_names := sorted(RESERVED_ARGUMENTS.intersection(template.arguments)):
        raise BadRequest("chat_template_kwargs", f"must not set {reserved_names[0]!r}, which the server sets")


def refusal(messages: Messages, error: Exception) -> BadRequest:
    """The template's own error, with the roles that only the template knows."""
    roles = sorted({message.role for message in messages} - KNOWN_ROLES)
    unusual = f" (they have the role {', '.join(map(short, roles))})" if roles else ""
    return BadRequest("messages", f"are refused by the model's chat template{unusual}: {first_line(error)}")


def first_line(error: Exception) -> str:
    """The first line of the error; the other lines may contain the whole conversation."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
