"""Selects each row's next token: the argmax of a greedy row, else a sample of the warped distribution.

Three implementations select the same tokens: torch, on any device and after any warpers; native code on a
CPU, which leaves rows with nearly tied values to torch; and Triton kernels on a GPU. Knows sequences and
logits.
"""

from collections.abc import Sequence as SequenceOf
from typing import NamedTuple

import torch
from torch import Tensor

from inference.engine.sampling import triton_sampling
from inference.engine.sampling.gumbel import add_gumbel_noise, rng_keys, rng_states
from inference.engine.sampling.sampling_plan import SampledRows
from inference.engine.sampling.scatter import NEG_INF, index_tensor
from inference.engine.sampling.triton_sampling import SampledRow
from inference.engine.sampling.warpers import MAX_TEMPERATURE, MIN_TEMPERATURE, apply_warpers
from inference.engine.sequence import Sequence
from inference.native import sampling as native

# Numbers that torch processes at once on a CPU: few enough to stay in the cache, which is twice as fast. Rows
# that native code leaves to torch are sampled one by one, so that a row does not depend on the others.
BLOCK_SIZE = 1 << 18


class SelectedTokens(NamedTuple):
    """Values (n,) of the selected tokens and their ids (n,), int64.

    A value is not finite if the logits hold NaN or no token is left.
    """

    max_values: Tensor
    token_ids: Tensor


def to_samplable(logits: Tensor) -> Tensor:
    """The logits (W, V) in a dtype that `select_tokens` accepts: unchanged, or a float32 copy."""
    is_supported = native.supports(logits) or triton_sampling.supports(logits)
    return logits if is_supported else logits.float()


def select_tokens(
    logits: Tensor, sequences: SequenceOf[Sequence], rows: SampledRows
) -> tuple[SelectedTokens, dict[int, Tensor]]:
    """Select the tokens of the rows (W, V).

    Also returns row → distribution (V,) from which the token was sampled, for the rows of `rows.processed`
    that torch samples.
    """
    if native.supports(logits):
        selected, ambiguous_rows = _select_native(logits, sequences, rows)
        torch_rows = sorted([*rows.torch, *ambiguous_rows])
        blocks = [[row] for row in torch_rows] if torch_rows else []
    else:
        selected, torch_rows = _select_on_device(logits, sequences, rows)
        blocks = _split_into_blocks(logits, torch_rows)
    warped_logits: dict[int, Tensor] = {}
    for block in blocks:
        warped_logits |= _select_by_torch(logits, sequences, block, rows.processed, selected)
    return selected, warped_logits


def _select_by_torch(
    logits: Tensor,
    sequences: SequenceOf[Sequence],
    rows: list[int],
    processed_rows: set[int],
    selected: SelectedTokens,
) -> dict[int, Tensor]:
    """Select the tokens of `rows`; returns row → warped logits (V,) for those that are in processed_rows."""
    row_index, block = index_tensor(rows, logits), [sequences[row] for row in rows]
    block_logits = apply_warpers(logits[row_index].float(), block)
    warped_logits = {row: block_logits[at].clone() for at, row in enumerate(rows) if row in processed_rows}
    keys = rng_keys([s.seed for s in block], [s.num_output_tokens for s in block], logits.device)
    max_values, token_ids = add_gumbel_noise(block_logits, keys).max(-1)
    selected.max_values[row_index], selected.token_ids[row_index] = max_values, token_ids
    return warped_logits


def _split_into_blocks(logits: Tensor, rows: list[int]) -> list[list[int]]:
    size = max(1, BLOCK_SIZE // logits.shape[1]) if logits.device.type == "cpu" else max(1, len(rows))
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _select_on_device(
    logits: Tensor, sequences: SequenceOf[Sequence], rows: SampledRows
) -> tuple[SelectedTokens, list[int]]:
    """The tokens of greedy rows and of rows for the Triton kernels, and the rows left to torch."""
    if not rows.kernel or not triton_sampling.supports(logits):
        return _argmax_of_all(logits), sorted(rows.torch + rows.kernel)
    params = [_kernel_params(row, sequences[row]) for row in rows.kernel]
    if len(params) == len(sequences):
        return SelectedTokens(*triton_sampling.sample(logits, params)), []
    selected = _argmax_of_all(logits)
    row_index = index_tensor(rows.kernel, logits)
    selected.max_values[row_index], selected.token_ids[row_index] = triton_sampling.sample(logits, params)
    return selected, rows.torch


def _argmax_of_all(logits: Tensor) -> SelectedTokens:
    max_values, token_ids = logits.max(-1)
    return SelectedTokens(max_values.float(), token_ids)


def _kernel_params(row: int, sequence: Sequence) -> SampledRow:
    sampling = sequence.request.sampling
    return SampledRow(
        row,
        sequence.seed,
        sequence.num_output_tokens,
        sampling.temperature,
        sampling.top_k,
        sampling.top_p,
        sampling.min_p,
    )


def _select_native(
    logits: Tensor, sequences: SequenceOf[Sequence], rows: SampledRows
) -> tuple[SelectedTokens, list[int]]:
    """The tokens that native code selects, and the rows whose best tokens are too close for it."""
    selected = SelectedTokens(torch.empty(len(sequences)), torch.empty(len(sequences), dtype=torch.int64))
    ambiguous_rows: list[int] = []
    if rows.greedy:
        row_index = torch.tensor(rows.greedy)
        selected.max_values[row_index], selected.token_ids[row_index] = native.argmax(logits, row_index)
    if rows.kernel:
        row_index = torch.tensor(rows.kernel)
        token_ids = _gumbel_argmax(logits, row_index, [sequences[row] for row in rows.kernel])
        selected.token_ids[row_index] = token_ids
        selected.max_values[row_index] = torch.where(token_ids >= 0, 0.0, NEG_INF)
        ambiguous_rows = row_index[token_ids == native.AMBIGUOUS].tolist()
    return selected, ambiguous_rows


def _gumbel_argmax(logits: Tensor, row_index: Tensor, sequences: SequenceOf[Sequence]) -> Tensor:
    """Ids (n,) that native code samples for the rows `row_index`; below 0 for rows without a token."""
    temperatures, seeds, positions, has_cutoffs = [], [], [], False
    for sequence in sequences:
        sampling = sequence.request.sampling
        temperatures.append(sampling.temperature)
        seeds.append(sequence.seed)
        positions.append(sequence.num_output_tokens)
        has_cutoffs |= sampling.top_k > 0 or sampling.top_p < 1 or sampling.min_p > 0
    scales = torch.tensor(temperatures, dtype=torch.float32).clamp_(MIN_TEMPERATURE, MAX_TEMPERATURE)
    cutoffs = _cutoffs(logits, row_index, scales, sequences) if has_cutoffs else None
    return native.gumbel_argmax(logits, row_index, rng_states(seeds, positions), scales, cutoffs)


def _cutoffs(
    logits: Tensor, row_index: Tensor, temperatures: Tensor, sequences: SequenceOf[Sequence]
) -> Tensor:
    """The cutoffs of top_k, top_p and min_p for native code."""
    samplings = [s.request.sampling for s in sequences]
    top_k = torch.tensor([min(each.top_k, logits.shape[1]) for each in samplings], dtype=torch.int32)
    shares = [each.top_p for each in samplings], [each.min_p for each in samplings]
    top_p, min_p = torch.tensor(shares, dtype=torch.float32)
    return native.compute_cutoffs(logits, row_index, temperatures, top_k, top_p, min_p)
