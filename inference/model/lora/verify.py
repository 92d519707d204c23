"""Tries a loaded adapter before it is listed: one forward pass with it and one without, on a few tokens.

Knows the runners and which memory of theirs no sequence uses; not where the adapter came from.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from inference.model.batch import Batch, GroupTable, Resize, Runner, make_batch, slots_of
from inference.model.contiguous.runner import ContiguousRunner
from inference.model.fused.runner import FusedRunner
from inference.model.lora.runner import AdapterRunner
from inference.model.lora.weights import AdapterWeights
from inference.model.paged.runner import PagedRunner
from inference.model.reference import ordinary_token_ids
from inference.model.uncached.runner import UncachedRunner

NUM_TOKENS = 8


class UnusableAdapter(Exception):
    """The adapter cannot be served; the message says why."""


@torch.inference_mode()
def try_adapter(runner: AdapterRunner, adapter: AdapterWeights) -> None:
    """Compute a few tokens with and without the adapter, which `runner` has.

    Finds out whether the adapter may share steps. Raises UnusableAdapter if the model fails, if logits are
    not finite, if they equal the base's although the adapter has an effect, and for a module that is never
    called.
    """
    scratch = scratch_runner(runner.model, runner.delta_runner)
    batch = trial_batch(scratch, ordinary_token_ids(runner.model)[:NUM_TOKENS])
    base = scratch.forward(batch).float().clone()
    batch.adapter_ids.append(adapter.number)
    with runner.modules.installed([adapter]):
        logits = scratch.forward(batch).float()
    if not bool(logits.isfinite().all()):
        raise UnusableAdapter("the model's logits with it are NaN or infinite")
    if name := uncalled_module(runner.modules.num_calls(adapter)):
        raise UnusableAdapter(f"the model never calls {name}: its weights would have no effect")
    if adapter.has_effect and torch.equal(base, logits):
        raise UnusableAdapter("the model computes the same logits with it as without it")
    adapter.unbatched = runner.modules.has_other_inputs(adapter)


def uncalled_module(num_calls: Mapping[str, int]) -> str:
    """The first module that was never called, and whose equals in other layers were not either; or empty."""
    called = {re.sub(r"\d+", "*", name) for name, count in num_calls.items() if count}
    return next((name for name in num_calls if re.sub(r"\d+", "*", name) not in called), "")


def scratch_runner(model: Any, runner: Runner) -> Runner:
    """The runner itself if it has a page that no sequence uses, else one of its kind with its own memory."""
    context = runner.context
    if isinstance(runner, ContiguousRunner):
        return type(runner)(
            model,
            max_sequences=1,
            context=context,
            kv_capacity=context,
            chunked_prefill=runner.capabilities.chunked_prefill,
            batched=runner.batched,
        )
    if isinstance(runner, UncachedRunner):
        return UncachedRunner(model, max_sequences=1, context=context, is_causal=runner.is_causal)
    return runner


def trial_batch(runner: Runner, token_ids: Sequence[int]) -> Batch:
    """The tokens as the only row, in the padding pages of paged memory."""
    encoder_inputs = {0: token_ids} if runner.capabilities.encoder_decoder else {}
    token_ids = runner.start_ids or token_ids
    starts, size = (0, len(token_ids)), runner.page_size
    build = partial(make_batch, token_ids, starts, (0,), (0,), range(len(token_ids)), page_size=size)
    if not isinstance(runner, PagedRunner | FusedRunner):
        return build((Resize(1, size),), encoder_inputs)
    pages = [runner.pool.num_pages_of(group) for group in runner.pool.groups]
    batch = build(page_table=((pages[0],),))
    for page in pages[1:]:
        batch.window_tables.append(GroupTable(((page,),), slots_of((page,), size, *starts)))
    return batch
