"""The slots seat against the plain, uncached forward of each sequence alone."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from inference.model.batch import Batch, Shape
from inference.model.slots.runner import SlotRunner
from inference.model.slots.sources import SourceRunner
from inference.model.unfit import Unfit
from tests.families import ATTENTION, CONTEXT, ENCODERS, FAMILIES, VOCAB, tiny
from tests.walk import Walk


def runner(name: str, **settings: bool) -> SlotRunner:
    seat = SourceRunner if name in ENCODERS else SlotRunner
    resumes = name in ATTENTION or name in ENCODERS
    return seat(tiny(name), max_rows=4, context=CONTEXT, area=4 * CONTEXT, resumes=resumes, **settings)


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_that_come_and_go_compute_what_each_computes_alone(name: str) -> None:
    slots = runner(name)
    walk = Walk(slots.model, slots, seed=3)
    walk.go(16)
    assert walk.checked > 30
    assert walk.error < 1e-4


@pytest.mark.parametrize("name", ["llama", "gpt_neo"])
def test_a_row_that_begins_with_anothers_prefix_goes_on_as_itself(name: str) -> None:
    slots = runner(name)
    walk = Walk(slots.model, slots)
    walk.join([5, 9, 13, 40, 41, 42, 43])
    walk.step([7])
    walk.fork(0, 5)
    walk.step([1, 3])
    walk.step([2, 1])
    assert walk.error < 1e-4


def test_rows_computed_one_by_one_are_the_same() -> None:
    slots = runner("gpt_neo", together=False)
    walk = Walk(slots.model, slots, seed=3)
    walk.go(10)
    assert walk.error < 1e-4


def test_a_reshape_keeps_what_fits() -> None:
    slots = runner("llama")
    walk = Walk(slots.model, slots)
    walk.join([5, 9, 13])
    walk.step([9])
    for shape in (Shape(4, 128), Shape(1, 64), Shape(3, 32)):
        walk.moves.append(shape)
        walk.step([2])
    assert walk.error < 1e-4


def test_memory_is_what_the_shape_says() -> None:
    slots = runner("llama")
    for shape in (Shape(2, 64), Shape(4, 128), Shape(1, 32)):
        slots.forward(Batch([5], (0, 1), (0,), (0,), (0,), (shape,)))
        held = sum(table.data.nbytes for table in slots.memory.tables if table.data is not None)
        assert held == shape.rows * shape.columns * slots.memory.bytes_per_column()


def test_recurrent_states_are_never_resumed() -> None:
    with pytest.raises(Unfit, match="recurrent"):
        SlotRunner(tiny("jamba"), max_rows=2, context=CONTEXT, area=2 * CONTEXT, resumes=True)


@pytest.mark.parametrize(("name", "resumes"), [("llama", True), ("jamba", False)])
def test_logits_come_in_the_order_they_are_wanted(name: str, resumes: bool) -> None:
    """Rows of unlike widths take several calls, whose logits interleave."""
    slots = runner(name)
    lengths = (50, 1, 50, 1)
    ids = [7 + i % 50 for i in range(sum(lengths))]
    starts = (0, 50, 51, 101, 102)
    want = (3, 49, 50, 60, 101)
    step = Batch(ids, starts, (0,) * 4, range(4), want, (Shape(4, 64),))
    logits = slots.forward(step)
    whole = slots.forward(Batch(ids, starts, (0,) * 4, range(4), range(102), (Shape(0, 0), Shape(4, 64))))
    assert logits.shape == (len(want), VOCAB)
    assert torch.allclose(logits, whole[list(want)], atol=1e-5)


def test_the_vocabulary_matmul_runs_for_wanted_tokens_alone() -> None:
    slots = runner("llama")
    seen: list[int] = []
    output = slots.model.get_output_embeddings()
    output.register_forward_hook(lambda module, args, out: seen.append(out.numel() // VOCAB))
    slots.forward(Batch(list(range(5, 45)), (0, 10, 40), (0, 0), (0, 1), (9, 39), (Shape(2, 64),)))
    slots.forward(Batch([5, 6], (0, 1, 2), (10, 30), (0, 1), ()))
    assert sum(seen) == 2


class Largest(TorchDispatchMode):
    """Notes the largest tensor that an operation makes; views of what was there do not count."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: ANN001, ANN204
        out = func(*args, **(kwargs or {}))
        given = {a.untyped_storage().data_ptr() for a in args if isinstance(a, torch.Tensor)}
        for made in out if isinstance(out, tuple) else (out,):
            if isinstance(made, torch.Tensor) and made.untyped_storage().data_ptr() not in given:
                self.numel = max(self.numel, made.numel())
        return out


@pytest.mark.parametrize("taken", [1, 3])
def test_grouped_keys_and_values_are_never_copied(taken: int) -> None:
    """Neither repeated for the heads of a group nor gathered: no tensor of a step is as large as they are."""
    slots = runner("llama")
    held = 100
    ids = [5 + i % 90 for i in range(held)]
    slots.forward(Batch(ids * 2, (0, held, 2 * held), (0, 0), (0, 1), (), (Shape(2, 128),)))
    step = Batch(ids[: 2 * taken], (0, taken, 2 * taken), (held, held - 7), (0, 1), (0,))
    with Largest() as largest:
        slots.forward(step)
    keys = slots.memory.tables[0].data
    assert keys is not None
    assert 0 < largest.numel < keys[:2, :held].numel() / 2
