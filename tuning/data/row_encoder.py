"""Encodes a row to token ids and weights, with the tokenizer and the chat template that serve.

The prompt of a trained answer has exactly the ids that it has when the server gets it. Knows no files.
"""

from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Any

from inference.content import content_text
from inference.errors import BadRequest, short
from inference.text.chat_template import ChatTemplate
from inference.text.special_tokens import MarkedText
from inference.text.tokenizer import MAX_CHARS_PER_TOKEN, PromptTokenizer, check_unicode, encode_inside
from inference.text.vocabulary import Vocabulary
from inference.types import Message
from tuning.data import encoding_events as say
from tuning.data.answer_spans import AnswerSpans
from tuning.data.conversation import Conversation
from tuning.data.encoding_events import EncodingEvents
from tuning.data.examples import Example
from tuning.data.rendered_conversation import RenderedConversation
from tuning.data.row_forms import Completion, TrainedText


class RowTooLong(Exception):
    """max_length would cut the answer. num_tokens: of the row; 0 if its text was too long to count."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__()
        self.num_tokens = num_tokens


class RowEncoder:
    """Encodes rows for one model.

    max_length      most tokens of a row; 0: no limit
    train_on_input  the tokens of prompts are trained, too
    """

    def __init__(
        self,
        tokenizer: Any,
        chat_template: ChatTemplate,
        *,
        max_length: int,
        train_on_input: bool = False,
    ) -> None:
        self.vocabulary = Vocabulary(tokenizer)
        self.max_length = max_length
        self.train_on_input = train_on_input
        self._answer_spans = AnswerSpans(chat_template)
        self._is_plain = bool(chat_template.fallback_reason)
        self._prompt_tokenizer = PromptTokenizer(self.vocabulary)
        self._end_id = tokenizer.eos_token_id
        self._shared_ids = list(range(self.vocabulary.size))

    def encode(self, trained_text: TrainedText, line: int, events: EncodingEvents) -> Example:
        """Encode a conversation or a completion. Raises BadRequest, RowTooLong."""
        if isinstance(trained_text, Completion):
            return self._encode_completion(trained_text, line, events)
        rendered = self._answer_spans.render(trained_text)
        self._add_events(trained_text, rendered, line, events)
        return self._encode_rendered(rendered, None if self._is_plain else False, line)

    def _encode_completion(self, row: Completion, line: int, events: EncodingEvents) -> Example:
        """A text as the server gets it, with special tokens at its start, and an end token."""
        text, boundary = MarkedText(row.prompt + row.completion), len(row.prompt)
        if self._end_id is None:
            events.add(say.NO_END, line)
        rendered = RenderedConversation(text, ((boundary, len(text.text)),), needs_end=True)
        return self._encode_rendered(rendered, None, line)

    def _add_events(
        self, conversation: Conversation, rendered: RenderedConversation, line: int, events: EncodingEvents
    ) -> None:
        reasoning = conversation.messages[conversation.trained_indices[-1]].reasoning.strip()
        end_name = self.vocabulary.name(self._end_id) if self._end_id is not None else ""
        sentences = {
            say.ONLY_LAST: rendered.is_only_last,
            say.UNLIKE_PROMPT: rendered.is_unlike_prompt,
            say.UNTRAINED_END: rendered.is_end_untrained,
            say.EMPTY_ANSWER: any(is_empty(conversation.messages[i]) for i in conversation.trained_indices),
            say.LOST_REASONING: reasoning not in rendered.text.text,
            say.TEMPLATE_START.format(short(rendered.template_start)): bool(rendered.template_start),
            say.ADDED_END.format(end_name) if end_name else say.NO_END: rendered.needs_end,
        }
        for sentence, is_true in sentences.items():
            if is_true:
                events.add(sentence, line)

    def _encode_rendered(
        self, rendered: RenderedConversation, add_special_tokens: bool | None, line: int
    ) -> Example:
        text = rendered.text.text
        if self.max_length and len(text) > self.max_length * MAX_CHARS_PER_TOKEN:
            raise RowTooLong(0)
        check_unicode(text, "the text")
        bounds = sorted({0, len(text), *chain.from_iterable(rendered.spans), *rendered.text.split_at})
        fragments = [text[start:end] for start, end in pairwise(bounds)]
        token_ids: list[int] = []
        weights: list[float] = []
        for start, ids in zip(bounds, self._encode_fragments(fragments, add_special_tokens), strict=False):
            is_trained = self.train_on_input or any(low <= start < high for low, high in rendered.spans)
            token_ids += ids
            weights += [float(is_trained)] * len(ids)
        if rendered.needs_end and self._end_id is not None and token_ids[-1:] != [self._end_id]:
            token_ids.append(self._end_id)
            weights.append(1.0)
        return self._make_example(token_ids, weights, line)

    def _encode_fragments(
        self, fragments: list[str], add_special_tokens: bool | None
    ) -> Iterator[tuple[int, ...]]:
        """The ids of each fragment of a text, of which none crosses its ends."""
        yield self._prompt_tokenizer.encode(fragments[0] if fragments else "", add_special_tokens)
        if fragments[1:]:
            yield from encode_inside(fragments[1:], self.vocabulary)

    def _make_example(self, token_ids: list[int], weights: list[float], line: int) -> Example:
        if self.max_length and len(token_ids) > self.max_length:
            raise RowTooLong(len(token_ids))
        weights[:1] = [0.0]
        if not any(weights):
            rule = "has no token to train: the answer is empty, or the chat template does not write it"
            raise BadRequest("", rule)
        # Equal ids are one object: a large dataset takes a quarter of the memory.
        return Example(tuple(map(self._shared_ids.__getitem__, token_ids)), tuple(weights), line)


def is_empty(message: Message) -> bool:
    """Whether the message has no text, no thoughts and no calls."""
    return not (content_text(message.content).strip() or message.reasoning.strip() or message.tool_calls)
