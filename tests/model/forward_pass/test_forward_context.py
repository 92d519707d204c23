"""Each thread has its own forward pass, and a pass inside another one does not end it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import torch
from torch.nn import ModuleList
from transformers import PreTrainedModel

from inference.model.batch import Batch, Resize, Runner, make_batch
from inference.model.contiguous.runner import ContiguousRunner
from inference.model.forward_pass.forward_context import (
    ForwardContext,
    get_forward_context,
    set_forward_context,
)
from inference.model.paged.kv_pool import KVPool
from inference.model.paged.runner import PagedRunner
from tests.timeouts import TIMEOUT_S
from tests.tiny_models.families import tiny

CONTEXT, PROMPT, STEPS = 64, 5, 6
IDS = torch.randint(3, 90, (PROMPT + STEPS,), generator=torch.Generator().manual_seed(2)).tolist()


def paged(model: PreTrainedModel) -> Runner:
    return PagedRunner(model, KVPool(4), max_sequences=1, context=CONTEXT)


def contiguous(model: PreTrainedModel) -> Runner:
    return ContiguousRunner(
        model, max_sequences=1, context=CONTEXT, kv_capacity=CONTEXT, chunked_prefill=True
    )


def batches(runner: Runner) -> list[Batch]:
    """A prompt, then one token at a time."""
    is_paged = runner.capabilities.paged
    return [
        make_batch(
            IDS[start:end],
            (0, end - start),
            (start,),
            (0,),
            range(end - start),
            () if is_paged or start else (Resize(1, CONTEXT),),
            page_table=((3, 1),) if is_paged else (),
            page_size=runner.page_size if is_paged else CONTEXT,
        )
        for start, end in pairwise((0, *range(PROMPT, PROMPT + STEPS + 1)))
    ]


def expected(model: PreTrainedModel) -> torch.Tensor:
    with torch.inference_mode():
        return model(torch.tensor([IDS])).logits[0]


@pytest.mark.parametrize("other", (paged, contiguous))
def test_runners_of_two_models_take_turns_on_one_thread(other: Callable[..., Runner]) -> None:
    models = tiny("llama"), tiny("gemma2")
    runners = paged(models[0]), other(models[1])
    steps = zip(*map(batches, runners), strict=True)
    turns = [
        [runner.forward(batch).clone() for runner, batch in zip(runners, step, strict=True)] for step in steps
    ]
    for model, logits in zip(models, zip(*turns, strict=True), strict=True):
        assert torch.allclose(torch.cat(logits), expected(model), atol=1e-4)


@pytest.mark.parametrize("other", (paged, contiguous))
def test_runners_of_two_models_compute_on_two_threads_at_once(other: Callable[..., Runner]) -> None:
    """In every layer, each thread waits until the other is in the middle of its forward pass too."""
    models = tiny("llama", num_hidden_layers=2), tiny("gpt2", n_layer=2)
    runners = paged(models[0]), other(models[1])
    both = threading.Barrier(2, timeout=TIMEOUT_S)

    def wait_for_both(*_: object) -> None:
        both.wait()

    for model in models:
        for layer in next(each for each in model.modules() if isinstance(each, ModuleList)):
            layer.register_forward_pre_hook(wait_for_both)

    def compute(runner: Runner) -> torch.Tensor:
        return torch.cat([runner.forward(batch).clone() for batch in batches(runner)])

    with ThreadPoolExecutor(2) as threads:
        logits = list(threads.map(compute, runners))
        plain_logits = list(threads.map(expected, models))
    for computed, plain in zip(logits, plain_logits, strict=True):
        assert torch.allclose(computed, plain, atol=1e-4)


def test_a_pass_inside_another_one_does_not_end_it() -> None:
    outer, inner = ForwardContext(None), ForwardContext(None)
    with set_forward_context(outer):
        with pytest.raises(ValueError, match="failed"), set_forward_context(inner):
            assert get_forward_context() is inner
            raise ValueError("the inner pass failed")
        assert get_forward_context() is outer
    assert get_forward_context() is None
