"""A paged runner whose steps are recorded as CUDA graphs, without a GPU."""

from collections.abc import Callable
from importlib import import_module

import torch
from transformers import PreTrainedModel

from inference.model.batch import Batch, make_batch
from inference.model.paged.attention import AttentionParams
from inference.model.paged.attn_metadata import AttnMetadata
from inference.model.paged.captured_graph import Capture
from inference.model.paged.cuda_graphs import GraphRunner
from inference.model.paged.kernels.page_table import page_table_of
from inference.model.paged.kv_pool import PAGE_SIZE, KVPool, LayerKV
from inference.model.paged.runner import PagedRunner

PAGES, CONTEXT, ROWS = 24, 64, 5
CLOSE = 1e-3  # in standard deviations of the logits


def indexed(
    query: torch.Tensor, pages: LayerKV, metadata: AttnMetadata, params: AttentionParams
) -> torch.Tensor:
    """An AttentionKernel that finds rows and pages only in the page table, as GPU kernels do.

    The output of tokens that belong to no row is not a number.
    """
    index = page_table_of(metadata, query.device)
    T, H, _ = query.shape
    token = torch.arange(T, device=query.device)
    row = torch.searchsorted(index.query_start_loc[1:].contiguous(), token, right=True)
    row = row.clamp(max=len(index.seq_lens) - 1)
    position = (index.seq_lens[row] - index.query_start_loc[row + 1] + token)[:, None]
    keys, values = (  # (T, n, H, D)
        data[index.pages[row].long()].flatten(1, 2).repeat_interleave(H // data.shape[2], 2)
        for data in (pages.keys, pages.values)
    )
    scores = torch.einsum("thd,tnhd->thn", query, keys) * params.scale
    column = torch.arange(keys.shape[1], device=query.device)
    visible = (column <= position) & (column > position - (params.window or CONTEXT))
    visible &= (token < index.query_start_loc[-1])[:, None]
    weights = scores.masked_fill(~visible[:, None], float("-inf")).softmax(-1)
    values = values.masked_fill(~visible[:, :, None, None], 0)  # a page may have values that are not a number
    return torch.einsum("thn,tnhd->thd", weights, values)


def trace(compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    compute()
    # Here, not at the top: each process of pytest imports this file.
    tracer = import_module("torch.fx.experimental.proxy_tensor")
    return tracer.make_fx(compute)()


def runner_of(kind: type[PagedRunner], model: PreTrainedModel) -> PagedRunner:
    return kind(model, KVPool(PAGES), max_sequences=ROWS, context=CONTEXT, kernel=indexed)


def eager_recorder(compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    return compute


def record_runner(model: PreTrainedModel, recorder: Capture, max_batch_tokens: int = 0) -> GraphRunner:
    runner = runner_of(GraphRunner, model)
    runner.capture_graphs(recorder, CLOSE, max_batch_tokens)
    return runner


def one_token_rows(count: int) -> Batch:
    rows = range(count)
    pages = [(row,) for row in rows]
    return make_batch(
        range(3, 3 + count),
        range(count + 1),
        [0] * count,
        rows,
        rows,
        page_table=pages,
        page_size=PAGE_SIZE,
    )
