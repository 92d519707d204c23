"""The text of a conversation with its trained characters. Plain values only."""

from dataclasses import dataclass, replace

from inference.text.special_tokens import MarkedText
from tuning.data.marks import Span


@dataclass(frozen=True, slots=True)
class RenderedConversation:
    """The text of a conversation up to its last trained answer.

    spans             the trained characters, ascending
    needs_end         the template ends the last answer with no token: the tokenizer's end token must follow
    is_end_untrained  the template's generation block leaves out the end of the turn
    is_only_last      of several answers only the last one is trained: the template writes the others
                      differently once they are history, for example without thoughts
    is_unlike_prompt  the template's prompt for the last answer does not begin the text
    template_start    what the template itself writes in front of an answer, left out of the spans
    """

    text: MarkedText
    spans: tuple[Span, ...]
    needs_end: bool = False
    is_end_untrained: bool = False
    is_only_last: bool = False
    is_unlike_prompt: bool = False
    template_start: str = ""

    def without_tail(self) -> "RenderedConversation":
        """The conversation up to the end of its last answer."""
        return replace(self, text=first_chars(self.text, self.spans[-1][1]))


def first_chars(text: MarkedText, num_chars: int) -> MarkedText:
    return MarkedText(text.text[:num_chars], tuple(i for i in text.split_at if i < num_chars))
