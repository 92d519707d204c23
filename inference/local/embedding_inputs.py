"""Validates and tokenizes the inputs of embeddings.

Many inputs are tokenized on one thread, a chunk of them at a time: several threads would keep the engine
waiting for Python's lock and for a core.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from inference.errors import BadRequest, TooLong
from inference.local.input_processor import InputProcessor, check_unicode
from inference.model.load.sentence_transformers import GENERATOR, EmbeddingMethod
from inference.types import GenerationRequest
from inference.validation import check_ids

MAX_INPUTS = 2048  # per request; OpenAI's API reference, "Create embeddings"
CHUNK_INPUTS = 64  # half a millisecond of work if they are short

TokenIds = tuple[int, ...]
EmbeddingInput = str | Sequence[int]


class EmbeddingInputs:
    """Tokenizes the inputs for one model. method: how it makes embeddings."""

    def __init__(self, input_processor: InputProcessor, method: EmbeddingMethod = GENERATOR) -> None:
        self._input_processor = input_processor
        self.method = method
        self._tokenizing_thread = ThreadPoolExecutor(1, thread_name_prefix="tokenize")

    def token_ids(self, inputs: Sequence[EmbeddingInput]) -> list[TokenIds]:
        """The token ids of each input, tokenized as the method says. Raises BadRequest, TooLong."""
        if not 0 < len(inputs) <= MAX_INPUTS:
            raise BadRequest("input", f"must hold 1 to {MAX_INPUTS} texts", len(inputs))
        if len(inputs) <= CHUNK_INPUTS:
            return self._chunk_ids(inputs)
        token_ids: list[TokenIds] = []
        for start in range(0, len(inputs), CHUNK_INPUTS):
            chunk = inputs[start : start + CHUNK_INPUTS]
            token_ids += self._tokenizing_thread.submit(self._chunk_ids, chunk).result()
        return token_ids

    def _chunk_ids(self, inputs: Sequence[EmbeddingInput]) -> list[TokenIds]:
        for value in inputs:
            self._check(value)
        texts = [self.method.prompt + value for value in inputs if isinstance(value, str)]
        try:
            special = self.method.adds_special_tokens or None
            ids_of_texts = iter(self._input_processor.texts_token_ids(texts, special))
            return [
                next(ids_of_texts) if isinstance(value, str) else self._prompt_ids(value) for value in inputs
            ]
        except TooLong as error:
            raise TooLong("input", error.limit, error.length, error.rule, error.unit) from None

    def _check(self, value: EmbeddingInput) -> None:
        if not value:
            raise BadRequest("input", "must not hold an empty text")
        if isinstance(value, str):
            # Before check_unicode, which holds Python's lock for as long as it encodes the text.
            self._input_processor.check_size(len(value), "input", self._input_processor.max_chars)
            check_unicode(value, "input")
        else:
            check_ids("input", value, self._input_processor.vocab)

    def _prompt_ids(self, ids: Sequence[int]) -> TokenIds:
        return self._input_processor.prompt_token_ids(GenerationRequest(ids, max_tokens=0))
