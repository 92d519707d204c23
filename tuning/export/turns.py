"""A chat template as a few texts between the contents of a conversation, if it is as simple as that.

Most templates are: everything between the contents depends on the roles alone. The texts are read from
rendered conversations, and checked against others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

SYSTEM, FIRST, REPLY = "SYSTEM-7f3a", "FIRST-7f3a", "REPLY-7f3a"  # contents that no template has
SECOND = "SECOND-7f3a"

Conversation = Sequence[dict[str, str]]
Render = Callable[[Conversation], str]


class NotTranslatable(Exception):
    """The template is more than texts between contents; the message says where it differs."""


@dataclass(frozen=True, slots=True)
class Turns:
    """before_system and after_system stand around a system message, `start` in its place without one.

    after_user       between a question and its answer
    after_assistant  between an answer and the next question
    prompt_end       after the last question: the model answers there
    """

    before_system: str
    after_system: str
    start: str
    after_user: str
    after_assistant: str
    prompt_end: str

    def render(self, conversation: Conversation) -> str:
        """The text of a conversation that ends with a question; a system message may come first."""
        text = self.start
        if conversation[0]["role"] == "system":
            text = self.before_system + conversation[0]["content"] + self.after_system
        ends = {"user": self.after_user, "assistant": self.after_assistant}
        turns = [message for message in conversation if message["role"] != "system"]
        earlier = "".join(message["content"] + ends[message["role"]] for message in turns[:-1])
        return text + earlier + turns[-1]["content"] + self.prompt_end


def read_turns(render: Render) -> Turns:
    """Find the turns of a chat template by conversations that it renders. Raises NotTranslatable.

    render: the text of a conversation, up to where the model answers.
    """
    start, prompt_end = split(render(conversation(FIRST)), FIRST)
    before_system, rest = split(render(conversation(FIRST, system=SYSTEM)), SYSTEM)
    after_system, _ = split(rest, FIRST)
    before_answer, rest = split(render(conversation(FIRST, REPLY, SECOND)), REPLY)
    after_assistant, _ = split(rest, SECOND)
    _, after_user = split(before_answer, FIRST)
    turns = Turns(before_system, after_system, start, after_user, after_assistant, prompt_end)
    for probe in PROBES:
        if turns.render(probe) != render(probe):
            raise NotTranslatable(f"it changes the text of a conversation of {len(probe)} messages")
    return turns


def conversation(*turns: str, system: str = "") -> list[dict[str, str]]:
    """Questions and answers by turns."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(turns)]
    return [{"role": "system", "content": system}, *messages] if system else messages


PROBES = (
    conversation("One?"),
    conversation("One?", "Two.", "Three?"),
    conversation("One?", "Two.", "Three?", "Four.", "Five?", system="Be brief."),
)


def split(text: str, content: str) -> tuple[str, str]:
    """What stands before and after a content that occurs once. Raises NotTranslatable."""
    if text.count(content) != 1:
        raise NotTranslatable("it does not repeat the contents as they are")
    before, _, after = text.partition(content)
    return before, after


def chat_renderer(tokenizer: Any) -> Render:
    """Renders with the tokenizer's own template, within the limits on templates."""

    def render(messages: Conversation) -> str:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    return render
