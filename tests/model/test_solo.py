"""The solo seat: models without a cache that we can hold."""

import pytest
import torch

from inference.model.batch import Batch, Shape
from inference.model.solo import SoloRunner
from tests.families import CONTEXT, tiny
from tests.walk import Walk


@pytest.mark.parametrize("name", ["openai-gpt", "rwkv", "t5"])
def test_rows_that_come_and_go_compute_what_each_computes_alone(name: str) -> None:
    model = tiny(name)
    walk = Walk(model, SoloRunner(model, max_rows=4, context=CONTEXT), seed=3)
    walk.go(12)
    assert walk.checked > 20
    assert walk.error < 1e-4


def test_a_copied_prefix_is_the_new_rows_own() -> None:
    model = tiny("rwkv")
    walk = Walk(model, SoloRunner(model, max_rows=4, context=CONTEXT))
    walk.join([5, 9, 13, 40, 41, 42, 43])
    walk.step([7])
    walk.fork(0, 5)
    walk.step([1, 3])
    assert walk.error < 1e-4


def test_a_decoder_that_sees_what_comes_reads_its_source_too() -> None:
    model = tiny("t5")
    batch = Batch([0, 9, 13], (0, 3), (0,), (0,), (1, 2), (Shape(2, 64),), {0: [5, 6, 7]})
    seen, unseen = (
        SoloRunner(model, max_rows=2, context=CONTEXT, causal=causal).forward(batch)
        for causal in (False, True)
    )
    assert torch.allclose(seen, unseen, atol=1e-5)


def test_xlnet_fills_in_the_token_it_generates() -> None:
    model = tiny("xlnet")
    ids = [10, 20, 30, 40]
    runner = SoloRunner(model, max_rows=2, context=CONTEXT)
    logits = runner.forward(Batch(ids, (0, 4), (0,), (0,), (1, 3), (Shape(2, 64),)))
    for row, count in enumerate((2, 4)):
        made = model.generate(
            torch.tensor([ids[:count]]),
            do_sample=False,
            max_new_tokens=1,
            return_dict_in_generate=True,
            output_logits=True,
        )
        assert torch.allclose(logits[row], made.logits[0][0], atol=1e-5)


def test_a_step_that_wants_nothing_computes_nothing() -> None:
    model = tiny("openai-gpt")
    runner = SoloRunner(model, max_rows=2, context=CONTEXT)
    assert runner.forward(Batch([5, 6], (0, 2), (0,), (0,), (), (Shape(2, 64),))).shape == (0, runner.vocab)
    assert runner.rows[0] == [5, 6]
