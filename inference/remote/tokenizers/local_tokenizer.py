"""The tokenizer of an entry's tokenizer_base_model: its files are on this machine, its model on a server.

Imported only where an entry has one: transformers takes a second to import.
"""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from inference.errors import BadRequest, TooLong
from inference.local.input_processor import InputProcessor
from inference.model.load.tokenizer import open_tokenizer, read_chat_template
from inference.text.tokenizer_config import tokenizer_config
from inference.text.vocabulary import Vocabulary
from inference.tokenized import Tokenized
from inference.types import GenerationRequest, TemplateOptions
from inference.validation import MAX_DETOKENIZE_IDS, check_ids

CONTEXT = 4096  # where neither the entry nor the server tells it: it limits the length of texts


class LocalTokenizer:
    """An UpstreamTokenizer over the files in a folder. It works in a thread, and raises BadRequest.

    context        tokens of prompt and answer together; None: unknown
    chat_template  in place of the folder's own, as a file, in Jinja or in base64; empty: the own one
    """

    def __init__(self, folder: Path, context: int | None, chat_template: str = "") -> None:
        tokenizer = open_tokenizer(folder, trust_remote_code=False)
        if chat_template:
            tokenizer.chat_template = read_chat_template(decode_template(chat_template))
        self._vocabulary = Vocabulary(tokenizer)
        self._processor = InputProcessor(
            self._vocabulary,
            context=context or CONTEXT,
            vocab=self._vocabulary.size,
            is_encoder_decoder=False,
        )

    @property
    def has_template(self) -> bool:
        return not self._processor.chat_template.fallback_reason

    def to_text(self, request: GenerationRequest) -> GenerationRequest:
        """The request with its conversation as text, by the chat template. Raises BadRequest.

        The text begins without the token that a server's tokenizer puts in front of every text.
        """
        if request.tools:
            raise BadRequest("tools", "are not supported by a server that completes text: leave them out")
        text = self._processor.tokenize(replace(request, truncate=None)).text
        tokenizer = self._vocabulary.tokenizer
        first_ids = tokenizer("a").input_ids[:1]
        if tokenizer.bos_token and first_ids == [tokenizer.bos_token_id]:
            text = text.removeprefix(tokenizer.bos_token)
        return replace(request, prompt=text, template=TemplateOptions())

    async def tokenize(self, request: GenerationRequest) -> Tokenized:
        return await asyncio.to_thread(self._processor.tokenize, request)

    async def encode_texts(self, texts: Sequence[str]) -> Sequence[tuple[int, ...]]:
        return await asyncio.to_thread(self._processor.encode_texts, texts, False)

    async def detokenize(self, token_ids: Sequence[int], show_special: bool) -> str:
        if len(token_ids) > MAX_DETOKENIZE_IDS:
            rule = f"may have at most {MAX_DETOKENIZE_IDS} ids"
            raise TooLong("tokens", MAX_DETOKENIZE_IDS, len(token_ids), rule)
        check_ids("tokens", token_ids, self._vocabulary.size)
        return await asyncio.to_thread(self._vocabulary.detokenize, token_ids, show_special)

    async def config(self) -> Mapping[str, Any]:
        tokenizer = self._vocabulary.tokenizer
        return tokenizer_config(tokenizer, self._processor.chat_template.template or tokenizer.chat_template)

    async def close(self) -> None:
        """There is no connection to close."""


def decode_template(template: str) -> str:
    """The template, of which h2oGPT also takes the base64."""
    try:
        return base64.b64decode(template, validate=True).decode()
    except ValueError:
        return template
