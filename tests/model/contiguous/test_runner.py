"""The contiguous runner against the plain, uncached forward of each sequence alone."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from inference.model.batch import Resize, UnsupportedModel, make_batch
from inference.model.contiguous.encoder_decoder import EncoderDecoderRunner
from inference.model.contiguous.runner import ContiguousRunner
from tests.tiny_models.families import ATTENTION, CONTEXT, ENCODERS, FAMILIES, VOCAB, tiny
from tests.walks.batch_walk import RunnerWalk


def runner(name: str, **settings: bool) -> ContiguousRunner:
    runner_class = EncoderDecoderRunner if name in ENCODERS else ContiguousRunner
    chunked_prefill = name in ATTENTION or name in ENCODERS
    return runner_class(
        tiny(name),
        max_sequences=4,
        context=CONTEXT,
        kv_capacity=4 * CONTEXT,
        chunked_prefill=chunked_prefill,
        **settings,
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_that_join_and_leave_compute_what_each_computes_alone(name: str) -> None:
    contiguous = runner(name)
    walk = RunnerWalk(contiguous.model, contiguous, seed=3)
    walk.go(16)
    assert walk.checked > 30
    assert walk.error < 1e-4


@pytest.mark.parametrize("name", ["llama", "gpt_neo"])
def test_a_forked_row_continues_independently_of_its_original(name: str) -> None:
    contiguous = runner(name)
    walk = RunnerWalk(contiguous.model, contiguous)
    walk.join([5, 9, 13, 40, 41, 42, 43])
    walk.step([7])
    walk.fork(0, 5)
    walk.step([1, 3])
    walk.step([2, 1])
    assert walk.error < 1e-4


def test_unbatched_rows_are_computed_alike() -> None:
    contiguous = runner("gpt_neo", batched=False)
    walk = RunnerWalk(contiguous.model, contiguous, seed=3)
    walk.go(10)
    assert walk.error < 1e-4


def test_a_reshape_keeps_what_fits() -> None:
    contiguous = runner("llama")
    walk = RunnerWalk(contiguous.model, contiguous)
    walk.join([5, 9, 13])
    walk.step([9])
    for shape in (Resize(4, 128), Resize(1, 64), Resize(3, 32)):
        walk.cache_ops.append(shape)
        walk.step([2])
    assert walk.error < 1e-4


def test_memory_matches_the_shape() -> None:
    contiguous = runner("llama")
    for shape in (Resize(2, 64), Resize(4, 128), Resize(1, 32)):
        contiguous.forward(make_batch([5], (0, 1), (0,), (0,), (0,), (shape,), page_size=shape.columns))
        num_bytes = sum(table.data.nbytes for table in contiguous.memory.tensors if table.data is not None)
        assert num_bytes == shape.rows * shape.columns * contiguous.memory.bytes_per_column()


def test_recurrent_states_are_never_resumed() -> None:
    with pytest.raises(UnsupportedModel, match="recurrent"):
        ContiguousRunner(
            tiny("jamba"),
            max_sequences=2,
            context=CONTEXT,
            kv_capacity=2 * CONTEXT,
            chunked_prefill=True,
        )


@pytest.mark.parametrize(("name", "chunked_prefill"), [("llama", True), ("jamba", False)])
def test_logits_come_in_the_order_they_are_requested(name: str, chunked_prefill: bool) -> None:
    """Rows of different widths take several calls, whose logits interleave."""
    contiguous = runner(name)
    lengths = (50, 1, 50, 1)
    ids = [7 + i % 50 for i in range(sum(lengths))]
    starts = (0, 50, 51, 101, 102)
    logits_indices = (3, 49, 50, 60, 101)
    step = make_batch(ids, starts, (0,) * 4, range(4), logits_indices, (Resize(4, 64),), page_size=64)
    logits = contiguous.forward(step)
    all_logits = contiguous.forward(
        make_batch(ids, starts, (0,) * 4, range(4), range(102), (Resize(0, 0), Resize(4, 64)), page_size=64)
    )
    assert logits.shape == (len(logits_indices), VOCAB)
    assert torch.allclose(logits, all_logits[list(logits_indices)], atol=1e-5)


def test_the_vocabulary_matmul_runs_only_for_requested_tokens() -> None:
    contiguous = runner("llama")
    counts: list[int] = []
    output = contiguous.model.get_output_embeddings()
    output.register_forward_hook(lambda module, args, out: counts.append(out.numel() // VOCAB))
    contiguous.forward(
        make_batch(range(5, 45), (0, 10, 40), (0, 0), (0, 1), (9, 39), (Resize(2, 64),), page_size=64)
    )
    contiguous.forward(make_batch([5, 6], (0, 1, 2), (10, 30), (0, 1), (), page_size=64))
    assert sum(counts) == 2


class LargestTensorMode(TorchDispatchMode):
    """Records the size of the largest tensor that an operation allocates; views of its inputs do not
    count.
    """

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: ANN001, ANN204
        out = func(*args, **(kwargs or {}))
        input_ptrs = {a.untyped_storage().data_ptr() for a in args if isinstance(a, torch.Tensor)}
        for output in out if isinstance(out, tuple) else (out,):
            if isinstance(output, torch.Tensor) and output.untyped_storage().data_ptr() not in input_ptrs:
                self.numel = max(self.numel, output.numel())
        return out


@pytest.mark.parametrize("num_new", [1, 3])
def test_grouped_keys_and_values_are_never_copied(num_new: int) -> None:
    """Keys and values are neither repeated for the heads of a group nor gathered: no tensor of a step is as
    large as they are.
    """
    contiguous = runner("llama")
    num_cached = 100
    ids = [5 + i % 90 for i in range(num_cached)]
    contiguous.forward(
        make_batch(
            ids * 2, (0, num_cached, 2 * num_cached), (0, 0), (0, 1), (), (Resize(2, 128),), page_size=128
        )
    )
    step = make_batch(
        ids[: 2 * num_new],
        (0, num_new, 2 * num_new),
        (num_cached, num_cached - 7),
        (0, 1),
        (0,),
        page_size=128,
    )
    with LargestTensorMode() as largest:
        contiguous.forward(step)
    keys = contiguous.memory.tensors[0].data
    assert keys is not None
    assert 0 < largest.numel < keys[:2, :num_cached].numel() / 2
