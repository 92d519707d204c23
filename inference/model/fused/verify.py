"""Extracts a LlamaSpec and verifies it: compares the fused and the paged runner at the end of the context.

Reference.error_of uses only the first positions, where errors in the rotary tables do not show. Knows both
runners and their inputs.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from transformers import PreTrainedModel

from inference.model.batch import UnsupportedModel, make_batch
from inference.model.fused.extract import extract_spec
from inference.model.fused.llama_model import LlamaSpec
from inference.model.fused.runner import FusedRunner
from inference.model.paged.kv_pool import AUTO, PAGE_SIZE, KVPool
from inference.model.paged.runner import PagedRunner
from inference.model.reference import ordinary_token_ids
from inference.model.remembered_trials import RememberedErrors
from inference.native.build import NativeUnavailable


def extract_verified_spec(
    model: PreTrainedModel,
    context: int,
    tolerance: float,
    kv_dtype: str,
    errors: RememberedErrors,
) -> LlamaSpec:
    """Extract the model for native code and verify it at the end of the context. Raises UnsupportedModel.

    errors: of earlier loads of the same model.
    """
    try:
        spec = extract_spec(model, context)
    except NativeUnavailable as reason:
        raise UnsupportedModel(str(reason)) from reason
    ids = ordinary_token_ids(model)
    error = errors.measure(
        f"end of {context} tokens, {kv_dtype}",
        partial(context_end_error, model, spec, ids, context, kv_dtype),
    )
    if not error <= tolerance:
        raise UnsupportedModel(f"error {error:.0e} at the end of the context")
    return spec


@torch.inference_mode()
def context_end_error(
    model: PreTrainedModel, spec: LlamaSpec, ids: Sequence[int], context: int, kv_dtype: str = AUTO
) -> float:
    """Largest difference between the runners' logits, in standard deviations of the paged runner's.

    One page of tokens, the ids in turn and without a prefix, is computed as if it stood at the end of the
    context.
    """
    count = min(PAGE_SIZE, context)
    token_ids = [ids[place % len(ids)] for place in range(count)]
    batch = make_batch(
        token_ids, (0, count), (0,), (0,), range(count), page_table=((0,),), page_size=PAGE_SIZE
    )
    batch = replace(batch, positions=list(range(context - count, context)))
    paged_pool, fused_pool = KVPool(1, kv_dtype=kv_dtype), KVPool(1, kv_dtype=kv_dtype)
    paged_runner = PagedRunner(model, paged_pool, max_sequences=1, context=PAGE_SIZE)
    fused_runner = FusedRunner(model, spec, fused_pool, max_sequences=1, context=PAGE_SIZE)
    expected, actual = paged_runner.forward(batch).float(), fused_runner.forward(batch).float()
    return ((actual - expected).abs().max() / expected.std()).item()
