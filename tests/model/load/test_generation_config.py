"""What a loaded model declares: the width of its logits and the tokens that a decoder begins with."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from inference.errors import BadRequest
from inference.model.load.generation_config import decoder_start_ids, vocab_size_of
from tests.tiny_models.families import VOCAB, tiny


def bart(start: int | list[int] | None, bos: int | None, config_start: int | None = None) -> Any:
    model = tiny("bart")
    model.config.decoder_start_token_id = config_start
    model.generation_config.decoder_start_token_id = start
    model.generation_config.bos_token_id = bos
    model.generation_config.forced_bos_token_id = None
    return model


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (bart(2, 5), (2,)),
        (bart([2], 5), (2,)),
        (bart(None, 5), (5,)),
        (bart(None, 5, config_start=3), (5,)),
        (bart(None, None, config_start=3), (3,)),
    ],
)
def test_a_decoder_begins_with_the_token_that_generate_begins_with(
    model: Any, expected: tuple[int, ...]
) -> None:
    assert decoder_start_ids(model) == expected
    if model.generation_config.decoder_start_token_id or model.generation_config.bos_token_id:
        generated = model.generate(torch.tensor([[7, 8, 9]]), do_sample=False, max_new_tokens=2, num_beams=1)
        assert generated[0, 0] == expected[0]


def test_a_forced_first_token_follows_the_start_token() -> None:
    model = bart(2, 5)
    model.generation_config.forced_bos_token_id = 1
    assert decoder_start_ids(model) == (2, 1)


def test_a_decoder_without_a_start_token_is_refused() -> None:
    with pytest.raises(BadRequest, match="decoder_start_token_id"):
        decoder_start_ids(bart(None, None))


def test_the_width_of_the_logits_is_that_of_the_output_layer_or_the_vocabulary() -> None:
    model = tiny("llama")
    assert vocab_size_of(model) == VOCAB
    config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(vocab_size=7))
    for output, width in (
        (torch.nn.Linear(4, 9), 9),
        (torch.nn.Embedding(8, 4), 8),
        (torch.nn.Identity(), 7),
        (None, 7),
    ):
        stub: Any = SimpleNamespace(config=config, get_output_embeddings=lambda output=output: output)
        assert vocab_size_of(stub) == width
