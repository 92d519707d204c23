"""The limit on prompt tokens, where the settings allow fewer than the context does."""

import pytest

from inference.errors import TooLong
from inference.local.input_processor import InputProcessor
from inference.text.vocabulary import Vocabulary
from inference.types import GenerationRequest
from tests.tiny_models import tiny


def ids(count: int, max_input_tokens: int | None, **changes: int) -> int:
    prompts = InputProcessor(
        Vocabulary(tiny.tokenizer()),
        context=16,
        vocab=320,
        is_encoder_decoder=False,
        max_input_tokens=max_input_tokens,
    )
    return len(prompts.prompt_token_ids(GenerationRequest([7] * count, **changes)))


def test_a_prompt_may_be_as_long_as_allowed() -> None:
    assert (ids(5, max_input_tokens=5), ids(15, max_input_tokens=None)) == (5, 15)


def test_a_longer_prompt_is_refused_with_the_limit() -> None:
    with pytest.raises(TooLong, match="prompt may have at most 5 tokens, got 6") as caught:
        ids(6, max_input_tokens=5)
    assert (caught.value.limit, caught.value.length) == (5, 6)


def test_the_limit_applies_after_truncation() -> None:
    assert ids(12, max_input_tokens=5, truncate=5) == 5
