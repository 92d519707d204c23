"""Extracts a LlamaSpec and verifies it: compares the fused and the paged runner at the end of the context.

Reference.error_of uses only the first positions, where errors in the rotary tables do not show. Knows both
runners and their inputs.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from inference.model.batch import Batch, UnsupportedModel
from inference.model.fused.extract import extract_spec
from inference.model.fused.llama_model import LlamaSpec
from inference.model.fused.runner import FusedRunner, build_step_arrays
from inference.model.paged.attn_metadata import build_metadata
from inference.model.paged.runner import PAGE_SIZE, PagedRunner
from inference.model.reference import ordinary_token_ids
from inference.native.build import NativeUnavailable


def extract_verified_spec(model: PreTrainedModel, context: int, tolerance: float) -> LlamaSpec:
    """Extract the model for native code and verify it at the end of the context. Raises UnsupportedModel."""
    try:
        spec = extract_spec(model, context)
    except NativeUnavailable as reason:
        raise UnsupportedModel(str(reason)) from reason
    error = context_end_error(model, spec, ordinary_token_ids(model), context)
    if not error <= tolerance:
        raise UnsupportedModel(f"error {error:.0e} at the end of the context")
    return spec


@torch.inference_mode()
def context_end_error(model: PreTrainedModel, spec: LlamaSpec, ids: Sequence[int], context: int) -> float:
    """Largest difference between the runners' logits, in standard deviations of the paged runner's.

    One page of tokens, the ids in turn and without a prefix, is computed as if it stood at the end of the
    context.
    """
    count = min(PAGE_SIZE, context)
    positions = range(context - count, context)
    token_ids = [ids[place % len(ids)] for place in range(count)]
    batch = Batch(token_ids, (0, count), (0,), (0,), range(count), page_table=((0,),))
    paged_runner = PagedRunner(model, max_sequences=1, context=PAGE_SIZE, kv_capacity=PAGE_SIZE)
    with paged_runner.attention.installed():
        metadata = replace(
            build_metadata(batch, PAGE_SIZE, model.device), positions=torch.tensor([positions])
        )
        expected = paged_runner.compute(metadata).float()
    fused_runner = FusedRunner(model, spec, max_sequences=1, context=PAGE_SIZE, kv_capacity=PAGE_SIZE)
    actual = fused_runner.run(build_step_arrays(batch, PAGE_SIZE)._replace(positions=list(positions))).float()
    return ((actual - expected).abs().max() / expected.std()).item()
