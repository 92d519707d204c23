"""The tokenizer of an entry's tokenizer_base_model: its files are on this machine, its model on a server.

Imported only where an entry has one: transformers takes a second to import.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inference.errors import TooLong
from inference.local.input_processor import InputProcessor
from inference.model.load.tokenizer import open_tokenizer
from inference.text.tokenizer_config import tokenizer_config
from inference.text.vocabulary import Vocabulary
from inference.tokenized import Tokenized
from inference.types import GenerationRequest
from inference.validation import check_ids

CONTEXT = 4096  # where neither the entry nor the server tells it: it limits the length of texts
MAX_DETOKENIZE_IDS = 100_000


class LocalTokenizer:
    """An UpstreamTokenizer over the files in a folder. It works in a thread, and raises BadRequest.

    context  tokens of prompt and answer together; None: unknown
    """

    def __init__(self, folder: Path, context: int | None) -> None:
        self._vocabulary = Vocabulary(open_tokenizer(folder, trust_remote_code=False))
        self._processor = InputProcessor(
            self._vocabulary,
            context=context or CONTEXT,
            vocab=self._vocabulary.size,
            is_encoder_decoder=False,
        )

    async def tokenize(self, request: GenerationRequest) -> Tokenized:
        return await asyncio.to_thread(self._processor.tokenize, request)

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
