"""Which characters of a rendered conversation are trained: the answers with their end of turn, no header.

A template with generation blocks says it itself. For the others, the prompt of an answer must begin the text;
what follows, up to the end of the turn, is the answer. Knows texts; knows no token ids.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from inference.content import content_text
from inference.errors import BadRequest
from inference.text.chat_template import ChatTemplate
from inference.text.special_tokens import MarkedText
from inference.types import Message, TemplateOptions, Tool, ToolCall
from tuning.data.conversation import Conversation
from tuning.data.generation_blocks import GenerationBlocks
from tuning.data.marks import Span, mark_contents, spans_of_marks
from tuning.data.rendered_conversation import RenderedConversation, first_chars

PROBE_ANSWER = "xylograph"  # a word that occurs in no template
PROBE = (Message("user", "Hi"), Message("assistant", PROBE_ANSWER))
PROMPT, WITHOUT_PROMPT = TemplateOptions(), TemplateOptions(add_generation_prompt=False)


class AnswerSpans:
    """Finds the answers in conversations that the served chat template renders.

    template_start  what the template itself writes in front of an answer, behind its prompt: never trained
    turn_end        the special token behind an answer; empty if the template writes none
    """

    def __init__(self, chat_template: ChatTemplate) -> None:
        self.chat_template = chat_template
        self._specials = chat_template.special_tokens
        self._blocks = GenerationBlocks(chat_template)
        self.template_start, self.turn_end, self._header, self._block_header = self._probe()

    def _probe(self) -> tuple[str, str, str, str]:
        """(template_start, turn_end, header of an answer, its part inside of a generation block)"""
        try:
            question, prompt, text = (
                self._render(messages, (), template).text
                for messages, template in (
                    (PROBE[:1], WITHOUT_PROMPT),
                    (PROBE[:1], PROMPT),
                    (PROBE, WITHOUT_PROMPT),
                )
            )
        except BadRequest:  # for these messages only, perhaps
            return "", "", "", ""
        before, _, behind = text.rpartition(PROBE_ANSWER)
        specials = self._specials.spans(behind)
        own_start = before[len(prompt) :] if before.startswith(prompt) else ""
        blocks = self._blocks.find(PROBE, (), WITHOUT_PROMPT, text)
        return (
            own_start if own_start.strip() else "",
            behind[slice(*specials[0])] if specials else "",
            prompt.removeprefix(question) if prompt.startswith(question) else "",
            before.removesuffix(own_start)[blocks[-1][0] :] if blocks else "",
        )

    def render(self, conversation: Conversation) -> RenderedConversation:
        """The text and its trained spans. Raises BadRequest if the template refuses the messages."""
        messages = conversation.messages[: conversation.trained_indices[-1] + 1]
        text = self._render(messages, conversation.tools, WITHOUT_PROMPT)
        rendered = self._from_blocks(conversation, messages, text)
        rendered = rendered or self._from_prompts(conversation, messages, text)
        return self._without_template_start(rendered.without_tail())

    def _render(
        self, messages: Sequence[Message], tools: Sequence[Tool], template: TemplateOptions
    ) -> MarkedText:
        return self.chat_template.render(messages, tools, None, template)

    def _from_blocks(
        self, conversation: Conversation, messages: Sequence[Message], text: MarkedText
    ) -> RenderedConversation | None:
        """The template's own blocks; None if it has not one for each message of the assistant."""
        blocks = self._blocks.find(messages, conversation.tools, WITHOUT_PROMPT, text.text)
        indices = [i for i, message in enumerate(messages) if message.role == "assistant"]
        if blocks is None or len(blocks) != len(indices):
            return None
        trained_indices = set(conversation.trained_indices)
        spans = [
            self._turn_in_block(text, block)
            for block, i in zip(blocks, indices, strict=True)
            if i in trained_indices
        ]
        end = spans[-1][1]
        has_end = self._end_of_turn(first_chars(text, end), spans[-1][0]) is not None
        is_end_untrained = not has_end and self.turn_end != "" and self.turn_end in text.text[end:]
        return RenderedConversation(text, tuple(spans), is_end_untrained=is_end_untrained)

    def _turn_in_block(self, text: MarkedText, block: Span) -> Span:
        """A block without the header of the turn, and without spaces behind its end."""
        start, end = block
        if text.text.startswith(self._block_header, start, end):
            start += len(self._block_header)
        return start, self._end_of_turn(first_chars(text, end), start) or end

    def _from_prompts(
        self, conversation: Conversation, messages: Sequence[Message], text: MarkedText
    ) -> RenderedConversation:
        tools = conversation.tools
        earlier_spans = self._earlier_spans(conversation, text)
        start = self._prompt_end(messages, tools, text)
        answer_start = self._find_answer(messages, tools, text) if start is None else start
        end = self._end_of_turn(text, answer_start)
        last_span = (answer_start, end or max(answer_start, len(text.text.rstrip())))
        return RenderedConversation(
            text,
            (*(earlier_spans or ()), last_span),
            needs_end=end is None,
            is_only_last=earlier_spans is None,
            is_unlike_prompt=start is None,
        )

    def _earlier_spans(self, conversation: Conversation, text: MarkedText) -> list[Span] | None:
        """The spans of all trained answers except the last; None if the template rewrites one of them.

        A span takes two renderings of the messages up to it. In a long conversation this is done for three
        answers, and for those that marks do not find.
        """
        indices = conversation.trained_indices[:-1]
        sample = (indices[0], indices[len(indices) // 2], indices[-1]) if len(indices) > 3 else indices
        spans = self._rendered_spans(conversation, sample, text)
        if spans is None or len(indices) == len(sample):
            return None if spans is None else list(spans.values())
        spans |= self._marked_spans(conversation, spans, text)
        others = self._rendered_spans(conversation, [i for i in indices if i not in spans], text)
        return None if others is None else [span for _, span in sorted((spans | others).items())]

    def _rendered_spans(
        self, conversation: Conversation, indices: Sequence[int], text: MarkedText
    ) -> dict[int, Span] | None:
        """The spans of these answers; None if one of them has another text when it is the last message."""
        spans = {}
        for i in indices:
            messages = conversation.messages[: i + 1]
            earlier_text = self._render(messages, conversation.tools, WITHOUT_PROMPT)
            start = self._prompt_end(messages, conversation.tools, earlier_text)
            if start is None:
                return None
            end = self._end_of_turn(earlier_text, start) or max(start, len(earlier_text.text.rstrip()))
            if not text.text.startswith(earlier_text.text[:end]):
                return None
            spans[i] = (start, end)
        return spans

    def _marked_spans(
        self, conversation: Conversation, spans: dict[int, Span], text: MarkedText
    ) -> dict[int, Span]:
        """The spans of other answers, if the template writes around them what it writes around these."""
        contents = self._content_spans(conversation, text)
        surroundings = {
            (text.text[start : contents[i][0]], text.text[contents[i][1] : end])
            for i, (start, end) in spans.items()
            if i in contents
        }
        return {
            i: (start - len(before), end + len(behind))
            for i, (start, end) in contents.items()
            for before, behind in surroundings
            if has_end_at(text, end, behind, conversation.messages[i].tool_calls)
            and has_start_at(text, start, self._header + before, conversation.messages[i].reasoning)
        }

    def _content_spans(self, conversation: Conversation, text: MarkedText) -> dict[int, Span]:
        """Where the contents of earlier trained answers are; empty if marks change the text."""
        *earlier, last = conversation.trained_indices
        messages = mark_contents(conversation.messages[: last + 1], set(earlier))
        try:
            marked_text = self._render(messages, conversation.tools, WITHOUT_PROMPT).text
        except BadRequest:
            return {}
        spans = spans_of_marks(marked_text, text.text)
        indices = [i for i in earlier if messages[i] is not conversation.messages[i]]
        return dict(zip(indices, spans, strict=True)) if spans and len(spans) == len(indices) else {}

    def _prompt_end(self, messages: Sequence[Message], tools: Sequence[Tool], text: MarkedText) -> int | None:
        """Where the prompt of the last message ends in the text; None if the prompt does not begin it."""
        if len(messages) == 1:
            return None
        prompt = self._render(messages[:-1], tools, PROMPT).text
        return len(prompt) if text.text.startswith(prompt) else None

    def _find_answer(self, messages: Sequence[Message], tools: Sequence[Tool], text: MarkedText) -> int:
        """Where the last message begins in a text that its prompt does not begin."""
        content = content_text(messages[-1].content).strip()
        position = text.text.rfind(content) if content else -1
        if position >= 0 or len(messages) == 1:
            return max(position, 0)
        prompt = self._render(messages[:-1], tools, PROMPT).text
        common = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(prompt, text.text, strict=False))
        )
        return next((start for start, end in self._specials.spans(text.text) if start < common < end), common)

    def _end_of_turn(self, text: MarkedText, start: int) -> int | None:
        """Behind the end token of the answer that begins at `start`; None if the text ends without one.

        The text may end with several special tokens, and spaces between them: the first that is turn_end
        ends the answer, else the last of them.
        """
        trailing: list[Span] = []
        position = len(text.text)
        for low, high in reversed(self._specials.spans(text.text[start:])):
            span = low + start, high + start
            if text.text[span[1] : position].strip() or span[0] + 1 in text.split_at:
                break
            trailing.insert(0, span)
            position = span[0]
        ends = (end for begin, end in trailing if text.text[begin:end] == self.turn_end)
        return next(ends, trailing[-1][1] if trailing else None)

    def _without_template_start(self, rendered: RenderedConversation) -> RenderedConversation:
        """Spans without a header, which a prompt behind the result of a tool may lack, and template_start."""
        spans, has_own_start = [], False
        for start, end in rendered.spans:
            start += len(self._header) * rendered.text.text.startswith(self._header, start, end)
            if self.template_start and rendered.text.text.startswith(self.template_start, start, end):
                start, has_own_start = start + len(self.template_start), True
            spans.append((start, end))
        return replace(
            rendered, spans=tuple(spans), template_start=self.template_start if has_own_start else ""
        )


def has_end_at(text: MarkedText, position: int, behind: str, calls: Sequence[ToolCall]) -> bool:
    """Whether an answer ends with `behind`; unknown if that is empty and calls may stand there."""
    return text.text.startswith(behind, position) and bool(behind or not calls)


def has_start_at(text: MarkedText, position: int, before: str, reasoning: str) -> bool:
    """Whether an answer begins with `before`; unknown if that is empty and a thought may stand there."""
    return text.text.endswith(before, 0, position) and bool(before or not reasoning)
