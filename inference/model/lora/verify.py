"""Tries a loaded adapter before it is listed: one forward pass with it and one without, on a few tokens.

Knows the runners and which memory of theirs no sequence uses; not where the adapter came from.
"""

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from inference.model.batch import Batch, GroupTable, Resize, Runner, make_batch, slots_of
from inference.model.contiguous.runner import ContiguousRunner
from inference.model.fused.runner import FusedRunner
from inference.model.lora.native import create_native_adapter
from inference.model.lora.runner import AdapterRunner
from inference.model.lora.weights import AdapterWeights
from inference.model.paged.runner import PagedRunner
from inference.model.reference import ordinary_token_ids
from inference.model.uncached.runner import UncachedRunner

log = logging.getLogger(__name__)

NUM_TOKENS = 8
# Largest accepted error of native code: in standard deviations of the logits, and as a multiple of the error
# without the adapter.
MIN_TOLERANCE, NOISE = 1e-3, 4


class UnusableAdapter(Exception):
    """The adapter cannot be served; the message says why."""


@torch.inference_mode()
def try_adapter(runner: AdapterRunner, adapter: AdapterWeights) -> None:
    """Compute a few tokens with and without the adapter, which `runner` has.

    Finds out whether the adapter may share steps, and whether native code computes it. Raises UnusableAdapter
    if the model fails, if logits are not finite, if they equal the base's although the adapter has an effect,
    and for a module of the decoder that is never called. Other modules that are never called, as those of a
    vision tower, are left out.
    """
    scratch = scratch_runner(runner.model, runner.delta_runner)
    batch = trial_batch(scratch, ordinary_token_ids(runner.model)[:NUM_TOKENS])
    base = scratch.forward(batch).float().clone()
    with_adapter = replace(batch, adapter_ids=[adapter.number])
    with runner.modules.installed([adapter]), watched_outputs(runner.model, adapter) as overflows:
        logits = scratch.forward(with_adapter).float().clone()
        if isinstance(scratch, ContiguousRunner) and len(batch.token_ids) < scratch.page_size:
            scratch.forward(replace(next_batch(scratch, batch), adapter_ids=[adapter.number]))
    if overflows:
        raise UnusableAdapter(f"the outputs of {overflows[0]} with it are NaN or infinite")
    if not bool(logits.isfinite().all()):
        raise UnusableAdapter("the model's logits with it are NaN or infinite")
    uncalled = uncalled_modules(runner.modules.num_calls(adapter))
    decoder = decoder_name(runner.model)
    if name := next((name for name in uncalled if f".{name}".startswith(decoder)), ""):
        raise UnusableAdapter(f"the model never calls {name}: its weights would have no effect")
    leave_out(runner, adapter, uncalled)
    if adapter.has_effect and torch.equal(base, logits):
        raise UnusableAdapter("the model computes the same logits with it as without it")
    adapter.unbatched = runner.modules.has_other_inputs(adapter)
    runner.use_graphs(adapter)
    if isinstance(runner.runner, FusedRunner):
        try_native(runner, adapter, (batch, base), (with_adapter, logits))
        if runner.deterministic and adapter.native is None:
            raise UnusableAdapter(
                "DETERMINISTIC=true serves adapters of the layers' matrices and lm_head only"
            )


@contextmanager
def watched_outputs(model: Any, adapter: AdapterWeights) -> Iterator[Sequence[str]]:
    """The names of the adapter's modules whose outputs are not finite, as they are called within the context.

    The logits need not show it: attention turns a query that is NaN into zeros.
    """
    names: list[str] = []

    def watch(name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor) and not bool(output.isfinite().all()):
            names.append(name)

    with ExitStack() as hooks:
        for name in adapter.deltas:
            module = model.get_submodule(name)
            hooks.callback(module.register_forward_hook(partial(watch, name)).remove)
        yield names


def try_native(runner: AdapterRunner, adapter: AdapterWeights, *expected: tuple[Batch, torch.Tensor]) -> None:
    """Have native code compute the adapter, if its logits are right.

    expected: a batch without and one with the adapter, and their logits. The difference between the runners
    without the adapter is what rounding causes.
    """
    fused = runner.runner
    assert isinstance(fused, FusedRunner)
    native = create_native_adapter(fused, adapter)
    if native is None:
        return
    fused.adapters[adapter.number] = native
    errors = [
        (fused.forward(batch).float() - logits).abs().max() / logits.std() for batch, logits in expected
    ]
    rounding, error = (float(each) for each in errors)
    if error <= max(MIN_TOLERANCE, NOISE * rounding):
        runner.use_native(adapter, native)
        return
    del fused.adapters[adapter.number]
    log.warning("adapter number=%d: native code has error %.0e: torch computes it", adapter.number, error)


def uncalled_modules(num_calls: Mapping[str, int]) -> list[str]:
    """The modules that were never called, and whose equals in other layers were not either."""
    called = {re.sub(r"\d+", "*", name) for name, count in num_calls.items() if count}
    return [name for name in num_calls if re.sub(r"\d+", "*", name) not in called]


def decoder_name(model: Any) -> str:
    """The name of the module that computes text, after a dot; empty if that is the model itself."""
    decoder = model.get_decoder()
    return next((f".{name}." for name, module in model.named_modules() if name and module is decoder), "")


def leave_out(runner: AdapterRunner, adapter: AdapterWeights, names: Collection[str]) -> None:
    """Forget what the adapter changes in modules that no text passes, such as a vision tower."""
    if not names:
        return
    log.info("adapter number=%d: %d modules compute no text: %s …", adapter.number, len(names), min(names))
    runner.modules.remove(adapter)
    adapter.deltas = {name: delta for name, delta in adapter.deltas.items() if name not in names}
    runner.modules.add(adapter)


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


def next_batch(runner: ContiguousRunner, batch: Batch) -> Batch:
    """One more token of the row: layers that expand cached latents, as MLA does, get those of all tokens."""
    token_ids = batch.token_ids
    return make_batch(token_ids[-1:], (0, 1), (len(token_ids),), (0,), (0,), page_size=runner.page_size)


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
