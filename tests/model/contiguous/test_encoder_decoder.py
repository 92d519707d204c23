"""The contiguous runner for encoder-decoder models."""

import pytest
import torch

from inference.model.batch import Resize, make_batch
from inference.model.contiguous.encoder_decoder import EncoderDecoderRunner
from tests.tiny_models.families import CONTEXT, tiny

ENCODER_INPUTS = ([10, 20, 30, 40, 50], [60, 70], [80, 11, 12])


def runner(name: str, forced: int | None = None) -> EncoderDecoderRunner:
    model = tiny(name)
    model.generation_config.forced_bos_token_id = forced
    return EncoderDecoderRunner(
        model, max_sequences=4, context=CONTEXT, kv_capacity=4 * CONTEXT, chunked_prefill=True
    )


@pytest.mark.parametrize("name", ["t5", "bart", "m2m_100"])
def test_answers_equal_those_of_generate(name: str) -> None:
    """Three rows in one batch; each begins with the start token and the forced BOS token."""
    contiguous = runner(name, forced=7)
    assert contiguous.start_ids[1:] == (7,)
    outputs = [list(contiguous.start_ids) for _ in ENCODER_INPUTS]
    batch = make_batch(
        token_ids=[token for output in outputs for token in output],
        query_start_loc=(0, 2, 4, 6),
        num_computed_tokens=(0, 0, 0),
        rows=(0, 1, 2),
        logits_indices=(1, 3, 5),
        cache_ops=(Resize(3, 64),),
        encoder_inputs=dict(enumerate(ENCODER_INPUTS)),
        page_size=64,
    )
    for num_cached in range(2, 10):
        token_ids = contiguous.forward(batch).argmax(1).tolist()
        outputs = [[*output, token] for output, token in zip(outputs, token_ids, strict=True)]
        batch = make_batch(token_ids, (0, 1, 2, 3), (num_cached,) * 3, (0, 1, 2), (0, 1, 2), page_size=64)
    for source, output in zip(ENCODER_INPUTS, outputs, strict=True):
        generated = contiguous.model.generate(
            torch.tensor([source]), do_sample=False, max_new_tokens=9, eos_token_id=None, num_beams=1
        )
        assert output == generated[0].tolist()


def test_a_longer_encoder_input_widens_the_memory_of_all_rows() -> None:
    contiguous = runner("t5")
    short, long = ENCODER_INPUTS[1], list(range(5, 45))
    contiguous.forward(make_batch([0], (0, 1), (0,), (0,), (), (Resize(2, 64),), {0: short}, page_size=64))
    contiguous.forward(make_batch([0], (0, 1), (0,), (1,), (), (), {1: long}, page_size=64))
    both = contiguous.forward(make_batch([9, 9], (0, 1, 2), (1, 1), (0, 1), (0, 1), page_size=64))
    with torch.inference_mode():
        for row, source in enumerate((short, long)):
            ids = torch.tensor([[0, 9]])
            expected = contiguous.model(torch.tensor([source]), decoder_input_ids=ids, use_cache=False).logits
            assert torch.allclose(both[row], expected[0, 1], atol=1e-5)
