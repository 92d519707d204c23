"""The vocabulary matmul is done for the tokens whose logits are wanted, and for no others."""

from typing import Any

import pytest
import torch

from inference.model.batch import Batch, Shape
from inference.model.packed.runner import PackedRunner
from inference.model.slots.runner import SlotRunner
from tests.families import tiny

IDS = (3, 4, 5, 6, 7)


def seat(name: str, model: Any) -> tuple[Any, Batch]:
    """A seat of the model, and a step of five tokens; the logits of the third and the last are wanted."""
    shape: dict[str, Any] = {"max_rows": 1, "context": 32, "area": 32}
    if name == "packed":
        return PackedRunner(model, **shape), Batch(IDS, (0, 5), (0,), (0,), (2, 4), tables=((0, 1),))
    batch = Batch(IDS, (0, 5), (0,), (0,), (2, 4), moves=(Shape(1, 32),))
    return SlotRunner(model, **shape, resumes=True), batch


@pytest.mark.parametrize("name", ["slots", "packed"])
def test_the_output_layer_is_given_the_tokens_wanted_alone(name: str) -> None:
    model, given = tiny("llama"), []
    with torch.inference_mode():
        whole = model(torch.tensor([IDS])).logits[0]
    runner, batch = seat(name, model)
    hook = model.get_output_embeddings().register_forward_pre_hook(
        lambda _, args: given.append(args[0].shape)
    )
    try:
        logits = runner.forward(batch)
    finally:
        hook.remove()
    assert [shape[:2] for shape in given] == [(1, 2)]
    torch.testing.assert_close(logits, whole[[2, 4]], atol=1e-4, rtol=1e-4)


def test_outside_of_a_step_it_computes_all() -> None:
    model = tiny("llama")
    seat("slots", model)
    with torch.inference_mode():
        assert model(torch.tensor([IDS])).logits.shape[:2] == (1, 5)
