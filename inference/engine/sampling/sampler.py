"""Samples the next token of every sequence from its logits.

Applies logits processors, then warpers, then noise and an argmax, each only to the rows that request it. Ids
and logprobs reach the host by one copy. Knows sequences and logits; knows no text, batches or models.
"""

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from inference.engine.sampling import logprobs
from inference.engine.sampling.processors import PROCESSORS, apply_in_order
from inference.engine.sampling.sampling_plan import group_rows
from inference.engine.sampling.scatter import index_tensor, select_rows
from inference.engine.sampling.select_tokens import select_tokens, to_samplable
from inference.engine.sampling.warpers import temperature
from inference.engine.sequence import Sequence
from inference.engine.step_output import PromptLogprob, TopLogprobs
from inference.model.device_copy import copy_to_host, copy_to_host_async, to_device
from inference.native import sampling as native

NAN_LOGITS, NO_ALLOWED_TOKEN = -1, -2


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A sequence's next token.

    id            NAN_LOGITS if the logits contain NaN or infinity, NO_ALLOWED_TOKEN if the request excludes
                  every token
    logprob       from the model's distribution, or from the processed one if the request asks for that; None
                  if the request asks for no logprobs
    top_logprobs  (id, logprob) of the most probable tokens of the same distribution
    """

    id: int
    logprob: float | None = None
    top_logprobs: TopLogprobs = ()


class PendingSample(NamedTuple):
    """The next tokens of W rows, which the device may still be computing.

    token_ids    (W,) int64, on the device; below 0 for rows without a token
    wait         waits for the tokens and returns them
    wait_finite  waits for the same copy: whether each of the checked rows holds finite numbers only
    """

    token_ids: Tensor
    wait: Callable[[], list[SampledToken]]
    wait_finite: Callable[[], list[bool]] = list


class Sampler:
    """Samples from the first `vocab` columns of the logits."""

    def __init__(self, vocab: int) -> None:
        self.vocab = vocab

    def sample_async(
        self, logits: Tensor, sequences: SequenceOf[Sequence], checked: Tensor | None = None
    ) -> PendingSample:
        """Sample the next token of each of the rows (W, V), in order, without waiting for the device.

        checked: further rows (n, V), which are only checked for NaN and infinity. The logits may be
        overwritten once it returns.
        """
        raw, rows = to_samplable(logits[:, : self.vocab]), group_rows(sequences)
        processed = apply_in_order(raw, sequences, PROCESSORS, rows.processors) if rows.processors else raw
        (max_values, token_ids), warped_logits = select_tokens(processed, sequences, rows)
        lacks_token = max_values - max_values != 0  # of nan and infinity; isfinite() is four operations
        if processed is raw:
            token_ids = token_ids.masked_fill_(lacks_token, NAN_LOGITS)
        else:
            token_ids = failure_ids(raw).where(lacks_token, token_ids)
        if not rows.num_top_logprobs and checked is None:
            return PendingSample(token_ids, partial(_collect_ids, copy_to_host_async(token_ids)))
        unwarped_rows = sorted(rows.processed - warped_logits.keys())
        if unwarped_rows:
            warped_logits |= _scale_rows(processed, sequences, unwarped_rows)
        packed_logprobs = _packed_logprobs(raw, warped_logits, token_ids, rows.num_top_logprobs)
        finite = _finite_flags(checked, token_ids)
        wait_for_host = copy_to_host_async(torch.cat([token_ids.int(), packed_logprobs.flatten(), finite]))
        return PendingSample(
            token_ids,
            partial(
                _collect_tokens, wait_for_host, packed_logprobs.shape, rows.num_top_logprobs, len(sequences)
            ),
            lambda: [] if checked is None else wait_for_host()[-len(finite) :].bool().tolist(),
        )

    def prompt_logprobs(
        self, logits: Tensor, token_ids: SequenceOf[int], num_top_logprobs: int
    ) -> list[PromptLogprob]:
        """The score of one id for each row (n, V), with the `num_top_logprobs` most probable tokens."""
        raw = logits[:, : self.vocab].float()
        id_tensor = index_tensor(token_ids, raw)
        ranks = logprobs.ranks(raw, id_tensor)
        host = copy_to_host(torch.cat([ranks, logprobs.pack(raw, id_tensor, num_top_logprobs)], 1))  # sync
        token_logprobs = logprobs.unpack(host[:, 1:], [num_top_logprobs] * len(token_ids))
        return [
            PromptLogprob(*token_logprob, rank)
            for token_logprob, rank in zip(token_logprobs, host[:, 0].tolist(), strict=True)
        ]


class BatchInvariantSampler(Sampler):
    """A Sampler whose tokens and logprobs of a row do not depend on the other rows.

    The order in which torch sums a row depends on the number of rows: over 150,000 numbers the last bit
    differs, and occasionally the sampled token. Native code computes each row separately, so its rows share a
    call; rows with logprobs, and all rows on devices without native code, are sampled one by one.
    """

    def sample_async(
        self, logits: Tensor, sequences: SequenceOf[Sequence], checked: Tensor | None = None
    ) -> PendingSample:
        is_native = native.supports(logits)
        single_rows = [
            row for row, s in enumerate(sequences) if s.request.logprobs is not None or not is_native
        ]
        if not single_rows:
            return super().sample_async(logits, sequences, checked)
        grouped_rows = [row for row in range(len(sequences)) if row not in single_rows]
        groups = [[row] for row in single_rows] + [grouped_rows]
        pending = [
            super(BatchInvariantSampler, self).sample_async(
                select_rows(logits, group),
                [sequences[row] for row in group],
                checked if group is grouped_rows else None,
            )
            for group in groups
        ]
        rows = [row for group in groups for row in group]
        order = to_device(torch.tensor(rows).argsort(), logits.device)

        def wait() -> list[SampledToken]:
            tokens_by_row = dict(
                zip(rows, (token for sample in pending for token in sample.wait()), strict=True)
            )
            return [tokens_by_row[row] for row in range(len(sequences))]

        return PendingSample(
            torch.cat([sample.token_ids for sample in pending])[order], wait, pending[-1].wait_finite
        )

    def prompt_logprobs(
        self, logits: Tensor, token_ids: SequenceOf[int], num_top_logprobs: int
    ) -> list[PromptLogprob]:
        """From a copy of the logits: a row's offset in memory may change the order of its sums."""
        return super().prompt_logprobs(logits.clone(), token_ids, num_top_logprobs)


def _collect_ids(wait_for_host: Callable[[], Tensor]) -> list[SampledToken]:
    return [SampledToken(id) for id in wait_for_host().tolist()]  # sync


def _collect_tokens(
    wait_for_host: Callable[[], Tensor],
    packed_shape: torch.Size,
    num_top_logprobs: dict[int, int],
    num_rows: int,
) -> list[SampledToken]:
    """The sampled tokens. The host copy has the ids, then the packed logprobs of shape `packed_shape`."""
    values = wait_for_host()  # sync
    token_ids = values[:num_rows].tolist()
    packed_logprobs = values[num_rows : num_rows + packed_shape.numel()].view(packed_shape)
    token_logprobs = logprobs.unpack(packed_logprobs, list(num_top_logprobs.values()))
    logprobs_by_row = dict(zip(num_top_logprobs, token_logprobs, strict=True))
    return [
        SampledToken(id, *logprobs_by_row.get(row, ())) if id >= 0 else SampledToken(id)
        for row, id in enumerate(token_ids)
    ]


def _packed_logprobs(
    raw: Tensor, processed_logits: dict[int, Tensor], token_ids: Tensor, num_top_logprobs: dict[int, int]
) -> Tensor:
    """Packed logprobs (see logprobs.pack) of the rows that request them; (0, 1) if no row does."""
    if not num_top_logprobs:
        return token_ids.new_empty((0, 1), dtype=torch.int32)
    row_index = index_tensor(num_top_logprobs, raw)
    raw = raw[row_index].float()
    if processed_logits:
        rows = zip(num_top_logprobs, raw, strict=True)
        raw = torch.stack([processed_logits.get(row, raw_row) for row, raw_row in rows])
    return logprobs.pack(raw, token_ids[row_index].clamp(min=0), max(num_top_logprobs.values()))


def _scale_rows(processed: Tensor, sequences: SequenceOf[Sequence], rows: list[int]) -> dict[int, Tensor]:
    """Row → logits (V,) over the temperature, float32, of rows that no other warper changes."""
    values = [1.0 if sequences[row].greedy else sequences[row].request.sampling.temperature for row in rows]
    return dict(zip(rows, temperature(processed[index_tensor(rows, processed)].float(), values), strict=True))


def _finite_flags(checked: Tensor | None, like: Tensor) -> Tensor:
    """int32 (n,): 1 for rows (n, V) of finite numbers, 0 for others."""
    if checked is None:
        return like.new_empty(0, dtype=torch.int32)
    return checked.amax(-1).isfinite().int()


def failure_ids(raw: Tensor) -> Tensor:
    """The id (W,) of a row without a token: NO_ALLOWED_TOKEN if its logits are finite, else NAN_LOGITS."""
    max_values = raw.amax(-1)
    nan_ids = torch.full(max_values.shape, NAN_LOGITS, device=raw.device)
    return nan_ids.masked_fill_(max_values.isfinite(), NO_ALLOWED_TOKEN)


def advance_matchers(sequences: SequenceOf[Sequence], token_ids: SequenceOf[int]) -> None:
    """Advance each matcher by its token. Stop tokens are not part of the grammar."""
    for sequence, id in zip(sequences, token_ids, strict=True):
        matcher = sequence.matcher
        if matcher is not None and id >= 0 and id not in sequence.stop_token_ids:
            matcher.advance(id)
