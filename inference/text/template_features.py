"""What a chat template supports, found by rendering probes.

Knows conversations and a function that renders them; knows no tokenizer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

from jinja2 import TemplateError

from inference.text.message_rewrites import Messages
from inference.text.template_probes import (
    MARKER,
    PART_CONVERSATIONS,
    PART_MARKERS,
    PROBE_CALL_MESSAGES,
    PROBE_MESSAGE,
    PROBE_REASONING,
    PROBE_TEXT_ARGUMENTS,
    PROBE_TOOL,
    PROBE_TURNS,
    UNKNOWN_CHAR,
)
from inference.types import Message, Role, Tool

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


class RenderProbe(Protocol):
    """Renders a conversation; see message_to_dict for the last option. Raises TEMPLATE_ERRORS."""

    def __call__(
        self,
        messages: Messages,
        uses_content_parts: bool,
        tools: Sequence[Tool],
        uses_thinking_parts: bool = False,
    ) -> str: ...


class TemplateFeatures:
    """The features of one chat template.

    uses_content_parts  contents must be lists of parts, as for models of text and images
    supports_tools      the template describes tools
    supports_calls      the template renders tool calls and their results
    part_roles          by whether the prompt has tools: the roles whose messages may have several parts,
                        because the template iterates over them
    """

    def __init__(self, render_probe: RenderProbe) -> None:
        self._render_probe = render_probe
        self.uses_content_parts = not self._count([PROBE_MESSAGE], False) and bool(
            self._count([PROBE_MESSAGE], True)
        )
        self.supports_tools = self.renders([PROBE_MESSAGE], 2, (PROBE_TOOL,))
        self.supports_calls = self.renders(PROBE_CALL_MESSAGES, 2)
        self.part_roles = {False: self._find_part_roles(()), True: self._find_part_roles((PROBE_TOOL,))}

    def renders(self, messages: Messages, min_count: int, tools: Sequence[Tool] = ()) -> bool:
        """Whether the rendered text contains the MARKER at least min_count times."""
        return self._count(messages, self.uses_content_parts, tools) >= min_count

    def renders_role(self, role: str) -> bool:
        """Whether the template renders a message of a role that only it knows."""
        probe = Message(role, MARKER)
        return any(
            self.renders([*before, probe], 1)
            for before in ((), PROBE_REASONING[:1], (PROBE_REASONING[0], Message("assistant", "Ho")))
        )

    @cached_property
    def supports_text_arguments(self) -> bool:
        """The template renders the arguments of a call that are text and no JSON object."""
        return self.renders(PROBE_TEXT_ARGUMENTS, 1)

    @cached_property
    def uses_thinking_parts(self) -> bool:
        """The template renders reasoning as a content part of type thinking."""
        try:
            text = self._render_probe(PROBE_REASONING, self.uses_content_parts, (), uses_thinking_parts=True)
        except TEMPLATE_ERRORS:
            return False
        return MARKER in text and "'type'" not in text and '"type"' not in text

    def tags(self, names: Iterable[str]) -> frozenset[str]:
        """The names that the template looks for in an assistant's text: it takes the text apart at </think>,
        and leaves out an opening <think> there.
        """
        first, second = PART_MARKERS
        names = frozenset(names)
        closing_tags = {name for name in names if self._looks_for(name, first, second)}
        opening_tags = {
            name
            for name in names - closing_tags
            if any(self._looks_for(name, "", f"{first}{tag}{second}") for tag in closing_tags)
        }
        return frozenset(closing_tags | opening_tags)

    def _looks_for(self, name: str, before: str, after: str) -> bool:
        """Whether the template renders the name in an assistant's text otherwise than an unknown word."""
        word = UNKNOWN_CHAR * len(name)
        return any(
            self._render_answer(turns, f"{before}{name}{after}")
            != self._render_answer(turns, f"{before}{word}{after}").replace(word, name)
            for turns in (PROBE_TURNS, PROBE_CALL_MESSAGES)
        )

    def _render_answer(self, turns: Messages, text: str) -> str:
        """The turns with another text of the assistant, who has the second one; empty if they are refused."""
        answered = [turns[0], replace(turns[1], content=text), *turns[2:]]
        try:
            return self._render_probe(answered, self.uses_content_parts, ())
        except TEMPLATE_ERRORS:
            return ""

    def _count(self, messages: Messages, uses_content_parts: bool, tools: Sequence[Tool] = ()) -> int:
        """How often the rendered text contains the MARKER; 0 if the template refuses the messages."""
        try:
            return self._render_probe(messages, uses_content_parts, tools).count(MARKER)
        except TEMPLATE_ERRORS:
            return 0

    def _find_part_roles(self, tools: Sequence[Tool]) -> frozenset[Role]:
        """The roles whose messages may have several parts: the template writes all texts, and no list."""
        roles: set[Role] = set()
        first, second = PART_MARKERS
        for role, messages in PART_CONVERSATIONS.items():
            try:
                text = self._render_probe(messages, self.uses_content_parts, tools)
            except TEMPLATE_ERRORS:
                continue
            between, is_complete, _ = text.partition(first)[2].partition(second)
            if is_complete and "type" not in between:
                roles.add(role)
        return frozenset(roles)
