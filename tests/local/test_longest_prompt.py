"""The tokens that a prompt may have, where the settings allow less than the context does."""

import pytest

from inference.errors import TooLong
from inference.local.prompt import Prompts
from inference.text.vocabulary import Vocabulary
from inference.types import GenerationRequest
from tests import tiny


def ids(count: int, most: int | None, **changes: int) -> int:
    prompts = Prompts(Vocabulary(tiny.tokenizer()), context=16, vocab=320, encodes=False, most=most)
    return len(prompts.ids(GenerationRequest([7] * count, **changes)))


def test_a_prompt_may_be_as_long_as_allowed() -> None:
    assert (ids(5, most=5), ids(15, most=None)) == (5, 15)


def test_a_longer_one_is_refused_with_the_limit() -> None:
    with pytest.raises(TooLong, match="prompt may have at most 5 tokens, got 6") as caught:
        ids(6, most=5)
    assert (caught.value.limit, caught.value.tokens) == (5, 6)


def test_what_is_left_of_a_prompt_is_what_counts() -> None:
    assert ids(12, most=5, truncate=5) == 5
