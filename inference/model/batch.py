"""The input of one step in plain integers (Batch), and the interface that computes it (Runner).

The engine builds a Batch and calls a Runner. A Batch is plain data: it can be printed, compared
or sent to another process, unless some of its token ids are still on the device.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy the first `columns` columns of row `source` over those of row `target`."""

    source: int
    target: int
    columns: int


@dataclass(frozen=True, slots=True)
class Swap:
    """Swap the first `columns` columns of rows `a` and `b`."""

    a: int
    b: int
    columns: int


@dataclass(frozen=True, slots=True)
class Clear:
    """Zero row `row`, or page `row` of paged memory: masked values must be finite too, as 0 × nan is nan."""

    row: int


@dataclass(frozen=True, slots=True)
class Resize:
    """Resize the memory to rows × columns; contents that fit both shapes are kept."""

    rows: int
    columns: int


CacheOp = Copy | Swap | Clear | Resize


@dataclass(frozen=True, slots=True)
class PendingTokens:
    """P token ids of a Batch that the host does not know yet: token_ids[positions[i]] is
    sampled_ids[sample_indices[i]].

    positions       (P,)  indices into the batch's token ids; ascending
    sample_indices  (P,)  indices into sampled_ids
    sampled_ids     (S,)  int64 on the runner's device; an id below 0 stands for a row without a token, whose
                          result is not used: any token is computed
    """

    positions: list[int]
    sample_indices: list[int]
    sampled_ids: torch.Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """R rows, T tokens in total. Row i computes token_ids[query_start_loc[i]:query_start_loc[i+1]].

    token_ids            (T,)
    query_start_loc      (R+1,)  where each row's token ids begin; query_start_loc[R] = T
    num_computed_tokens  (R,)    tokens already in the row's memory = position of its first new token
    rows                 (R,)    index of each row in the memory; ascending
    logits_indices       (W,)    indices into token_ids whose logits are returned; ascending
    cache_ops                    changes to the memory, applied in order before the forward pass
    encoder_inputs               row → encoder token ids, for encoder-decoder rows in their first step
    page_table           (R, …)  paged memory only: the pages of row i's tokens, in order
    pending_tokens               token ids that the host does not know yet; `token_ids` has 0 in their place
    """

    token_ids: Sequence[int]
    query_start_loc: Sequence[int]
    num_computed_tokens: Sequence[int]
    rows: Sequence[int]
    logits_indices: Sequence[int]
    cache_ops: Sequence[CacheOp] = ()
    encoder_inputs: Mapping[int, Sequence[int]] = field(default_factory=dict)
    page_table: Sequence[Sequence[int]] = ()
    pending_tokens: PendingTokens | None = None


class UnsupportedModel(Exception):
    """A runner does not support a model; the message says which property of the model."""


class Runner(Protocol):
    """Computes steps and owns the KV memory.

    max_sequences             rows that can be in use at once
    context                   tokens that one row can hold
    kv_capacity               rows × columns (tokens) of the memory; a Resize never exceeds it
    page_size                 tokens of a page; contiguous memory grows by multiples of it
    paged                     the memory is kv_capacity / page_size pages (Batch.page_table); Clear is the
                              only cache op
    vocab                     width of the logits
    supports_chunked_prefill  a row that holds tokens can compute several more in one step (chunked prefill,
                              prefix caching, drafts); if False, a row's first step computes its whole prompt
                              and every later step one token
    async_capable             forward returns before the device is done, and accepts Batch.pending_tokens
    is_encoder_decoder        the prompt is the encoder's input (Batch.encoder_inputs); rows hold decoder
                              tokens that begin with `start_ids`
    """

    max_sequences: int
    context: int
    kv_capacity: int
    page_size: int
    vocab: int
    supports_chunked_prefill: bool
    paged: bool
    async_capable: bool
    is_encoder_decoder: bool
    start_ids: tuple[int, ...]

    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step: logits (W, V) in the model's dtype, on its device, valid until the next call."""
        ...
