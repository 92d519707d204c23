"""A request's prompt as token ids, or the reason why it cannot be.

Knows what is asked of a prompt and what the context holds. Knows nothing of what is done with the ids.
"""

import sys
from collections.abc import Sequence
from typing import TypeGuard, cast

from inference.errors import BadRequest, TooLong
from inference.local.limits import check_ids
from inference.text.chat import Chat
from inference.text.encode import Encoder, check_unicode, located
from inference.text.vocabulary import Vocabulary
from inference.types import GenerationRequest, Message, Tokenized, ToolFormat

MAX_CHARS_A_TOKEN = 64  # a longer text is refused before time is spent on tokenising it
MAX_CHARS_TOLD = 400_000  # that are tokenised, a second's work, where nobody asks for an answer


class Prompts:
    """Prompts for a model with this tokenizer.

    context  tokens that prompt and answer share; for an encoder-decoder, that the encoder takes
    encodes  the model is an encoder-decoder, to whose encoder the tokenizer's closing token belongs as well
    most     tokens that a prompt may have; None: as many as leave room for an answer
    """

    def __init__(
        self, vocabulary: Vocabulary, *, context: int, vocab: int, encodes: bool, most: int | None = None
    ) -> None:
        self.vocabulary = vocabulary
        self.context = context
        self.vocab = vocab
        self.encodes = encodes
        self.most = most
        self.chat = Chat(vocabulary.tokenizer)
        self._encoder = Encoder(vocabulary)

    def ids(self, request: GenerationRequest) -> tuple[int, ...]:
        """At least one id, at most as many as leave room for an answer. Raises BadRequest, TooLong."""
        ids = self._ids(request)[-kept(request) :]
        if not ids:
            raise BadRequest("prompt", "is empty, and this model has no token that begins a text")
        room = self.context if self.encodes or request.max_tokens == 0 else self.context - 1
        if len(ids) > room:
            raise TooLong("prompt", self.context, len(ids))
        if self.most is not None and len(ids) > self.most:
            raise TooLong("prompt", self.most, len(ids), f"may have at most {self.most} tokens")
        return ids

    def tokenized(self, request: GenerationRequest) -> Tokenized:
        """The same ids, however many there are, each with the characters that it stands for."""
        prompt, keep = request.prompt, kept(request)
        if not isinstance(prompt, str) and not is_chat(prompt):
            ids = self._given(prompt)
            text = self.vocabulary.detokenize(ids, special=True)
            return Tokenized(text, tuple(located(self.vocabulary, text, ids))[-keep:])
        text, special = self._text(request, max(self._limit, MAX_CHARS_TOLD))
        return Tokenized(text, self._encoder.pieces(text, special)[-keep:])

    def _ids(self, request: GenerationRequest) -> tuple[int, ...]:
        prompt = request.prompt
        if not isinstance(prompt, str) and not is_chat(prompt):
            return self._given(prompt)
        return self._encoder.encode(*self._text(request, self._limit))

    def _given(self, prompt: Sequence[int] | Sequence[Message]) -> tuple[int, ...]:
        check_ids("prompt", prompt, self.vocab)
        return tuple(cast(Sequence[int], prompt))

    def _text(self, request: GenerationRequest, most: int) -> tuple[str, bool | None]:
        """(the prompt's text of at most so many characters, what Encoder.encode is to add to it)"""
        prompt = request.prompt
        if isinstance(prompt, str):
            return self._checked(prompt, "prompt", request, most), self._special(request)
        text = self._told(cast(Sequence[Message], prompt), request)
        return self._checked(text, "messages", request, most), self._special(request, bool(self.chat.why))

    def _special(self, request: GenerationRequest, plain: bool = True) -> bool | None:
        """A text is begun, and only for an encoder ended too; a chat template has special tokens itself."""
        if request.special is not None or not plain:
            return bool(request.special)
        return True if self.encodes else None

    def _told(self, messages: Sequence[Message], request: GenerationRequest) -> str:
        """The conversation in the template's words. A message of no characters counts as one token's, for
        its template writes that much."""
        chars = sum(MAX_CHARS_A_TOKEN + len(message.content) for message in messages)
        self._check_size(chars, "messages", self._limit)
        tools = () if request.tool_choice == "none" else request.tools
        return self.chat.render(messages, tools, asked_format(request), request.template)

    def _checked(self, text: str, field: str, request: GenerationRequest, most: int) -> str:
        """The text, or as much of its end as the tokens to be kept can be made of."""
        if request.truncate is None:
            self._check_size(len(text), field, most)
        text = text[-most:]
        check_unicode(text, field)
        return text

    @property
    def _limit(self) -> int:
        return self.context * MAX_CHARS_A_TOKEN

    def _check_size(self, chars: int, field: str, most: int) -> None:
        if chars > most:
            rule = f"has more than {most} characters, and the context holds {self.context} tokens"
            raise TooLong(field, self.context, chars, rule)


def kept(request: GenerationRequest) -> int:
    """How many ids to keep of the prompt's, from its end."""
    if request.truncate is not None and request.truncate < 1:
        raise BadRequest("truncate", "must be at least 1", request.truncate)
    return request.truncate or sys.maxsize


def asked_format(request: GenerationRequest) -> ToolFormat | None:
    """The format in which tools are described; a call that is demanded comes in the usual one."""
    return request.tool_format if request.tool_choice == "auto" else None


def is_chat(prompt: Sequence[int] | Sequence[Message]) -> TypeGuard[Sequence[Message]]:
    if not prompt:
        raise BadRequest("prompt", "is empty")
    return isinstance(prompt[0], Message)
