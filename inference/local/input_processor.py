"""Turns the prompt of a request into token ids, or refuses it.

Knows the prompt's options and the length of the context; does not know the engine.
"""

import sys
from collections.abc import Sequence
from typing import TypeGuard, cast

from inference.content import content_text
from inference.errors import BadRequest, TooLong
from inference.text.chat_template import ChatTemplate
from inference.text.special_tokens import MarkedText
from inference.text.tokenizer import MAX_CHARS_PER_TOKEN, PromptTokenizer, check_unicode, locate_tokens
from inference.text.vocabulary import Vocabulary
from inference.tokenized import Tokenized
from inference.types import GenerationRequest, Message, ToolFormat
from inference.validation import check_ids
from settings.groups import SpecialTokensIn

MAX_TOKENIZE_CHARS = 400_000  # limit of `tokenize` if the context is small: about a second of work


class InputProcessor:
    """Processes the prompts of one model.

    context             tokens of prompt and answer together; of the encoder in an encoder-decoder model
    vocab               width of the logits
    is_encoder_decoder  prompts go to an encoder, which expects the tokenizer's closing token too
    max_input_tokens    longest prompt allowed; None: any that leaves a token for the answer
    special_tokens_in   the texts in which the spelling of a special token is that token
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        context: int,
        vocab: int,
        is_encoder_decoder: bool,
        max_input_tokens: int | None = None,
        special_tokens_in: SpecialTokensIn = "prompts",
    ) -> None:
        self.vocabulary = vocabulary
        self.context = context
        self.vocab = vocab
        self.is_encoder_decoder = is_encoder_decoder
        self.max_input_tokens = max_input_tokens
        self.special_tokens_in = special_tokens_in
        self.chat_template = ChatTemplate(vocabulary.tokenizer)
        self._tokenizer = PromptTokenizer(vocabulary)

    def prompt_token_ids(self, request: GenerationRequest) -> tuple[int, ...]:
        """The prompt's ids: at least one, and room for a token unless max_tokens is 0.

        Raises BadRequest, TooLong.
        """
        return self._check_token_ids(self._encode_prompt(request)[-truncation(request) :], request)

    def texts_token_ids(
        self, texts: Sequence[str], add_special_tokens: bool | None = None
    ) -> list[tuple[int, ...]]:
        """The ids of prompts without an answer. Raises BadRequest, TooLong."""
        prompt = GenerationRequest("", max_tokens=0)
        return [self._check_token_ids(ids, prompt) for ids in self.encode_texts(texts, add_special_tokens)]

    def encode_texts(self, texts: Sequence[str], add_special_tokens: bool | None) -> list[tuple[int, ...]]:
        """The ids of each text, by one call of the tokenizer. Raises BadRequest, TooLong."""
        requests = [GenerationRequest(text, add_special_tokens=add_special_tokens) for text in texts]
        if not requests or self.special_tokens_in == "none":  # no token crosses the parts of such a text
            return [self._encode_prompt(request) for request in requests]
        prompts = [self._prompt_text(request, self.max_chars)[0].text for request in requests]
        return list(self._tokenizer.encode_batch(prompts, self._adds_special_tokens(requests[0])))

    def _check_token_ids(self, token_ids: tuple[int, ...], request: GenerationRequest) -> tuple[int, ...]:
        if not token_ids:
            raise BadRequest("prompt", "is empty: it must have at least one token")
        max_tokens = self.context if self.is_encoder_decoder or request.max_tokens == 0 else self.context - 1
        if len(token_ids) > max_tokens:
            raise TooLong(prompt_field(request), self.context, len(token_ids))
        if self.max_input_tokens is not None and len(token_ids) > self.max_input_tokens:
            raise TooLong(
                prompt_field(request),
                self.max_input_tokens,
                len(token_ids),
                f"may have at most {self.max_input_tokens} tokens",
            )
        if self.vocabulary.size > self.vocab:
            self._check_vocabulary(token_ids, prompt_field(request))
        return token_ids

    def _check_vocabulary(self, token_ids: Sequence[int], field: str) -> None:
        """Raise BadRequest for a token that the tokenizer has and the model lacks."""
        for token_id in token_ids:
            if token_id >= self.vocab:
                token = self.vocabulary.text(token_id)
                rule = (
                    f"has the token {token!r}, which is not in the model's vocabulary (0 to {self.vocab - 1})"
                )
                raise BadRequest(field, rule, token_id)

    def tokenize(self, request: GenerationRequest) -> Tokenized:
        """The prompt's ids, each with its characters. The prompt may exceed the context."""
        prompt, max_tokens = request.prompt, truncation(request)
        if not isinstance(prompt, str) and not is_chat(prompt):
            token_ids = self._token_ids(prompt)
            text = self.vocabulary.detokenize(token_ids, show_special=True)
            return Tokenized(text, tuple(locate_tokens(self.vocabulary, text, token_ids))[-max_tokens:])
        marked, add_special_tokens = self._prompt_text(request, max(self.max_chars, MAX_TOKENIZE_CHARS))
        token_spans = self._tokenizer.token_spans(marked.text, add_special_tokens, marked.split_at)
        return Tokenized(marked.text, token_spans[-max_tokens:])

    def _encode_prompt(self, request: GenerationRequest) -> tuple[int, ...]:
        prompt = request.prompt
        if not isinstance(prompt, str) and not is_chat(prompt):
            return self._token_ids(prompt)
        marked, add_special_tokens = self._prompt_text(request, self.max_chars)
        return self._tokenizer.encode(marked.text, add_special_tokens, marked.split_at)

    def _token_ids(self, prompt: Sequence[int] | Sequence[Message]) -> tuple[int, ...]:
        check_ids("prompt", prompt, self.vocab)
        return tuple(cast(Sequence[int], prompt))

    def _prompt_text(self, request: GenerationRequest, max_chars: int) -> tuple[MarkedText, bool | None]:
        """(text of the prompt, at most max_chars long; add_special_tokens for PromptTokenizer.encode)"""
        prompt = request.prompt
        if isinstance(prompt, str):
            is_literal = self.special_tokens_in == "none"
            marked = self.chat_template.special_tokens.split(prompt) if is_literal else MarkedText(prompt)
            return self._check_text(marked, "prompt", request, max_chars), self._adds_special_tokens(request)
        marked = self._render_chat(cast(Sequence[Message], prompt), request)
        if self.special_tokens_in == "all":
            marked = MarkedText(marked.text)
        return self._check_text(marked, "messages", request, max_chars), self._adds_special_tokens(
            request, bool(self.chat_template.fallback_reason)
        )

    def _adds_special_tokens(self, request: GenerationRequest, is_plain: bool = True) -> bool | None:
        """As requested; by default None (only in front) for a text, True for an encoder, False for a chat."""
        if request.add_special_tokens is not None or not is_plain:
            return bool(request.add_special_tokens)
        return True if self.is_encoder_decoder else None

    def _render_chat(self, messages: Sequence[Message], request: GenerationRequest) -> MarkedText:
        """The conversation, rendered by the chat template. Raises BadRequest, TooLong."""
        # An empty message counts as one token: the template writes at least that much for it.
        chars = sum(MAX_CHARS_PER_TOKEN + len(content_text(message.content)) for message in messages)
        self.check_size(chars, "messages", self.max_chars)
        tools = () if request.tool_choice == "none" else request.tools
        return self.chat_template.render(messages, tools, requested_format(request), request.template)

    def _check_text(
        self, marked: MarkedText, field: str, request: GenerationRequest, max_chars: int
    ) -> MarkedText:
        """The text; with `truncate`, its last max_chars characters. Raises BadRequest, TooLong."""
        if request.truncate is None:
            self.check_size(len(marked.text), field, max_chars)
        marked = marked.last(max_chars)
        check_unicode(marked.text, field)
        return marked

    @property
    def max_chars(self) -> int:
        """A longer text is refused before it is tokenized."""
        return self.context * MAX_CHARS_PER_TOKEN

    def check_size(self, chars: int, field: str, max_chars: int) -> None:
        """Raise TooLong for a text of more than `max_chars` characters."""
        if chars > max_chars:
            rule = f"has more than {max_chars} characters, and the context holds {self.context} tokens"
            raise TooLong(field, self.context, chars, rule, unit="characters")


def truncation(request: GenerationRequest) -> int:
    """The number of ids to keep from the prompt's end. Raises BadRequest."""
    if request.truncate is not None and request.truncate < 1:
        raise BadRequest("truncate", "must be at least 1", request.truncate)
    return request.truncate or sys.maxsize


def requested_format(request: GenerationRequest) -> ToolFormat | None:
    """The request's tool_format; None for a forced call, whose tools the chat template describes."""
    return request.tool_format if request.tool_choice == "auto" else None


def prompt_field(request: GenerationRequest) -> str:
    """The prompt's name in an error: messages for a chat."""
    return "messages" if is_chat(request.prompt) else "prompt"


def is_chat(prompt: str | Sequence[int] | Sequence[Message]) -> TypeGuard[Sequence[Message]]:
    """Whether the prompt is a conversation. Raises BadRequest for one without ids or messages."""
    if isinstance(prompt, str):
        return False
    if not prompt:
        raise BadRequest("prompt", "is empty")
    return isinstance(prompt[0], Message)
