"""A request's prompt as token ids, or the reason why it cannot be.

Knows the tokenizer's habits and the chat template. Knows nothing of what is done with the ids.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, TypeGuard, cast

from inference.errors import BadRequest, TooLong
from inference.local.limits import check_ids
from inference.text.chat import Chat
from inference.text.decode import Decoder
from inference.text.vocabulary import Vocabulary
from inference.types import GenerationRequest, Message, Piece, Tokenized

MAX_CHARS_A_TOKEN = 64  # a longer text is refused before time is spent on tokenising it


class Prompts:
    """Prompts for a model with this tokenizer.

    context  tokens that prompt and answer share; for an encoder-decoder, that the encoder takes
    encodes  the model is an encoder-decoder, to whose encoder the tokenizer's closing token belongs as well
    """

    def __init__(self, vocabulary: Vocabulary, *, context: int, vocab: int, encodes: bool) -> None:
        self.vocabulary = vocabulary
        self.tokenizer: Any = vocabulary.tokenizer
        self.context = context
        self.vocab = vocab
        self.encodes = encodes
        opened = self.tokenizer.encode("a", add_special_tokens=True)
        self.head = tuple(takewhile(vocabulary.special.__contains__, opened))
        self.chat = Chat(self.tokenizer)

    def ids(self, request: GenerationRequest) -> tuple[int, ...]:
        """At least one id, at most as many as leave room for an answer. Raises BadRequest, TooLong."""
        ids = self._ids(request)
        if not ids:
            raise BadRequest("prompt", "is empty, and this model has no token that begins a text")
        room = self.context if self.encodes or request.max_tokens == 0 else self.context - 1
        if len(ids) > room:
            raise TooLong("prompt", self.context, len(ids))
        return ids

    def tokenized(self, request: GenerationRequest) -> Tokenized:
        """The same, however many ids there are, with the text that each stands for."""
        pieces: list[Piece] = []
        decoder, end = Decoder(self.vocabulary), 0
        for id in self._ids(request):
            start, end = end, end + len(decoder.feed(id))
            pieces.append(Piece(id, self.vocabulary.text(id), start, end))
        return Tokenized(self._text(request), tuple(pieces))

    def _text(self, request: GenerationRequest) -> str:
        prompt = request.prompt
        if isinstance(prompt, str):
            return prompt
        if is_chat(prompt):
            return self.chat.render(prompt, request.tools, request.tool_format)
        return self.vocabulary.detokenize(cast(Sequence[int], prompt), special=True)

    def _ids(self, request: GenerationRequest) -> tuple[int, ...]:
        prompt = request.prompt
        if isinstance(prompt, str):
            return self._continued(prompt, "prompt")
        if is_chat(prompt):
            tools = () if request.tool_choice == "none" else request.tools
            form = request.tool_format if request.tool_choice == "auto" else None  # a demanded call is JSON
            self._check_size(sum(MAX_CHARS_A_TOKEN + len(message.content) for message in prompt), "messages")
            text = self.chat.render(prompt, tools, form)
            return self._continued(text, "messages") if self.chat.why else self._encode(text, "messages")
        ids = cast(Sequence[int], prompt)
        check_ids("prompt", ids, self.vocab)
        return tuple(ids)

    def _continued(self, text: str, field: str) -> tuple[int, ...]:
        """A text to go on with: begun as the tokenizer begins one, but not ended, save for an encoder."""
        if self.encodes:
            return self._encode(text, field, whole=True)
        ids = self._encode(text, field)
        begun = ids if ids[: len(self.head)] == self.head else (*self.head, *ids)
        return begun or self._blank()

    def _blank(self) -> tuple[int, ...]:
        begin = self.tokenizer.bos_token_id
        return () if begin is None else (begin,)

    def _encode(self, text: str, field: str, *, whole: bool = False) -> tuple[int, ...]:
        self._check_size(len(text), field)
        check_unicode(text, field)
        return tuple(self.tokenizer.encode(text, add_special_tokens=whole, verbose=False))

    def _check_size(self, chars: int, field: str) -> None:
        """A message of no characters counts as one token's, for its template writes that much."""
        limit = self.context * MAX_CHARS_A_TOKEN
        if chars > limit:
            rule = f"has more than {limit} characters, and the context holds {self.context} tokens"
            raise TooLong(field, self.context, chars, rule)


def is_chat(prompt: Sequence[int] | Sequence[Message]) -> TypeGuard[Sequence[Message]]:
    if not prompt:
        raise BadRequest("prompt", "is empty")
    return isinstance(prompt[0], Message)


def check_unicode(text: str, field: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = ascii(text[error.start : error.end])
        raise BadRequest(field, "holds half of a surrogate pair, which is no character", half) from None
