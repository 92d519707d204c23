"""The uncached runner, for models without a cache that the server can manage."""

import pytest
import torch

from inference.model.batch import Resize, make_batch
from inference.model.uncached.runner import UncachedRunner
from tests.tiny_models.families import CONTEXT, tiny
from tests.walks.batch_walk import RunnerWalk


@pytest.mark.parametrize("name", ["openai-gpt", "rwkv", "t5"])
def test_rows_that_join_and_leave_compute_what_each_computes_alone(name: str) -> None:
    model = tiny(name)
    walk = RunnerWalk(model, UncachedRunner(model, max_sequences=4, context=CONTEXT), seed=3)
    walk.go(12)
    assert walk.checked > 20
    assert walk.error < 1e-4


def test_a_copied_prefix_belongs_to_the_new_row() -> None:
    model = tiny("rwkv")
    walk = RunnerWalk(model, UncachedRunner(model, max_sequences=4, context=CONTEXT))
    walk.join([5, 9, 13, 40, 41, 42, 43])
    walk.step([7])
    walk.fork(0, 5)
    walk.step([1, 3])
    assert walk.error < 1e-4


def test_a_bidirectional_decoder_uses_its_encoder_input_too() -> None:
    model = tiny("t5")
    batch = make_batch([0, 9, 13], (0, 3), (0,), (0,), (1, 2), (Resize(2, 64),), {0: [5, 6, 7]}, page_size=64)
    bidirectional, autoregressive = (
        UncachedRunner(model, max_sequences=2, context=CONTEXT, is_causal=causal).forward(batch)
        for causal in (False, True)
    )
    assert torch.allclose(bidirectional, autoregressive, atol=1e-5)


def test_xlnet_fills_in_the_token_it_generates() -> None:
    model = tiny("xlnet")
    ids = [10, 20, 30, 40]
    runner = UncachedRunner(model, max_sequences=2, context=CONTEXT)
    logits = runner.forward(make_batch(ids, (0, 4), (0,), (0,), (1, 3), (Resize(2, 64),), page_size=64))
    for row, count in enumerate((2, 4)):
        output = model.generate(
            torch.tensor([ids[:count]]),
            do_sample=False,
            max_new_tokens=1,
            return_dict_in_generate=True,
            output_logits=True,
        )
        assert torch.allclose(logits[row], output.logits[0][0], atol=1e-5)


def test_a_step_that_needs_no_logits_computes_nothing() -> None:
    model = tiny("openai-gpt")
    runner = UncachedRunner(model, max_sequences=2, context=CONTEXT)
    assert runner.forward(
        make_batch([5, 6], (0, 2), (0,), (0,), (), (Resize(2, 64),), page_size=64)
    ).shape == (0, runner.vocab)
    assert runner.rows[0] == [5, 6]
