"""The vocabulary matmul is computed only for the tokens whose logits are requested."""

from typing import Any

import pytest
import torch

from inference.model.batch import Batch, Resize, make_batch
from inference.model.contiguous.runner import ContiguousRunner
from inference.model.paged.kv_pool import KVPool
from inference.model.paged.runner import PagedRunner
from tests.tiny_models.families import tiny

IDS = (3, 4, 5, 6, 7)


def make_runner(name: str, model: Any) -> tuple[Any, Batch]:
    """A runner of the model, and a step of five tokens; the logits of the third and the last are
    requested.
    """
    shape: dict[str, Any] = {"max_sequences": 1, "context": 32}
    if name == "paged":
        return PagedRunner(model, KVPool(2), **shape), make_batch(
            IDS, (0, 5), (0,), (0,), (2, 4), page_table=((0, 1),), page_size=16
        )
    batch = make_batch(IDS, (0, 5), (0,), (0,), (2, 4), (Resize(1, 32),), page_size=32)
    return ContiguousRunner(model, **shape, kv_capacity=32, chunked_prefill=True), batch


@pytest.mark.parametrize("name", ["contiguous", "paged"])
def test_the_output_layer_gets_only_the_requested_tokens(name: str) -> None:
    model, input_shapes = tiny("llama"), []
    with torch.inference_mode():
        all_logits = model(torch.tensor([IDS])).logits[0]
    runner, batch = make_runner(name, model)
    hook = model.get_output_embeddings().register_forward_pre_hook(
        lambda _, args: input_shapes.append(args[0].shape)
    )
    try:
        logits = runner.forward(batch)
    finally:
        hook.remove()
    assert [shape[:2] for shape in input_shapes] == [(1, 2)]
    torch.testing.assert_close(logits, all_logits[[2, 4]], atol=1e-4, rtol=1e-4)


def test_outside_of_a_step_all_logits_are_computed() -> None:
    model = tiny("llama")
    make_runner("contiguous", model)
    with torch.inference_mode():
        assert model(torch.tensor([IDS])).logits.shape[:2] == (1, 5)
