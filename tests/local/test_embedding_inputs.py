"""Inputs of embeddings: each has the ids of a prompt, and many are tokenized on one thread."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from inference.errors import BadRequest, TooLong
from inference.local.embedding_inputs import CHUNK_INPUTS, EmbeddingInputs
from inference.local.input_processor import InputProcessor
from inference.model.load.sentence_transformers import EmbeddingMethod
from inference.text.vocabulary import Vocabulary
from inference.types import GenerationRequest
from settings.groups import SpecialTokensIn
from tests.text.tokenizers_of_three_kinds import tokenizer

MANY = 2 * CHUNK_INPUTS + 1


def make_processor(special_tokens_in: SpecialTokensIn = "prompts") -> InputProcessor:
    return InputProcessor(
        Vocabulary(tokenizer("byte-level")),
        context=16,
        vocab=400,
        is_encoder_decoder=False,
        special_tokens_in=special_tokens_in,
    )


@pytest.mark.parametrize("special_tokens_in", ("prompts", "none"))
def test_each_input_has_the_ids_of_a_prompt(special_tokens_in: SpecialTokensIn) -> None:
    processor = make_processor(special_tokens_in)
    inputs: list[Any] = ["the", "<s>a</s> fox", [5, 6, 7], "é"] * MANY
    ids = EmbeddingInputs(processor).token_ids(inputs)
    assert ids == [processor.prompt_token_ids(GenerationRequest(value, max_tokens=0)) for value in inputs]


def test_an_embedding_models_texts_have_its_prompt_and_all_special_tokens() -> None:
    processor = make_processor()
    method = EmbeddingMethod(adds_special_tokens=True, prompt="a ")
    ids = EmbeddingInputs(processor, method).token_ids(["the fox", [5, 6]])
    request = GenerationRequest("a the fox", max_tokens=0, add_special_tokens=True)
    assert ids == [processor.prompt_token_ids(request), (5, 6)]


@pytest.mark.parametrize(
    ("value", "error"), (("", BadRequest), ("\ud800", BadRequest), ("the fox " * 20, TooLong))
)
def test_any_wrong_input_of_many_is_refused(value: str, error: type[BadRequest]) -> None:
    with pytest.raises(error, match=r"^input"):
        EmbeddingInputs(make_processor()).token_ids(["the"] * MANY + [value])


def test_many_inputs_of_several_requests_are_tokenized_on_one_thread() -> None:
    processor, threads = make_processor(), set()
    texts_token_ids = processor.texts_token_ids

    def record_thread(*args: Any) -> Any:
        threads.add(threading.get_ident())
        return texts_token_ids(*args)

    processor.texts_token_ids = record_thread  # type: ignore[method-assign]
    inputs = EmbeddingInputs(processor)
    with ThreadPoolExecutor(4) as clients:
        results = list(clients.map(inputs.token_ids, [["the"] * MANY] * 4))
    assert len(threads) == 1 and all(len(ids) == MANY for ids in results)
