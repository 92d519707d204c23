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
from inference.engine.sampling.scatter import NEG_INF, index_tensor
from inference.engine.sampling.triton_sampling import SampledRow
from inference.engine.sampling.warpers import MAX_TEMPERATURE, MIN_TEMPERATURE, active_warpers, apply_warpers
from inference.engine.sequence import Sequence
from inference.native import sampling as native
from inference.sampling import Sampling

# Numbers that torch processes at once on a CPU: few enough to stay in the cache, which is twice as fast. Rows
# that native code leaves to torch are sampled one by one, so that a row does not depend on the others.
BLOCK_SIZE = 1 << 18
# Native code and the Triton kernels apply these, in this order only.
NATIVE_WARPERS = ("temperature", "top_k", "top_p", "min_p")


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
    logits: Tensor, sequences: SequenceOf[Sequence], processed_logits: dict[int, Tensor]
) -> SelectedTokens:
    """Select the tokens of the rows (W, V).

    For sampled rows listed in `processed_logits`, store the distribution they were sampled from.
    """
    if native.supports(logits):
        selected, torch_rows = _select_native(logits, sequences, processed_logits)
        blocks = [[row] for row in torch_rows]
    else:
        selected, torch_rows = _select_on_device(logits, sequences, processed_logits)
        blocks = _split_into_blocks(logits, torch_rows)
    for rows in blocks:
        row_index, block = index_tensor(rows, logits), [sequences[row] for row in rows]
        processed = apply_warpers(logits[row_index].float(), block)
        for index, row in enumerate(rows):
            if row in processed_logits:
                processed_logits[row] = processed[index].clone()
        keys = rng_keys([s.task.seed for s in block], [s.num_output_tokens for s in block], logits.device)
        max_values, token_ids = add_gumbel_noise(processed, keys).max(-1)
        selected.max_values[row_index], selected.token_ids[row_index] = max_values, token_ids
    return selected


def _split_into_blocks(logits: Tensor, rows: list[int]) -> list[list[int]]:
    size = max(1, BLOCK_SIZE // logits.shape[1]) if logits.device.type == "cpu" else max(1, len(rows))
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _select_on_device(
    logits: Tensor, sequences: SequenceOf[Sequence], processed_logits: dict[int, Tensor]
) -> tuple[SelectedTokens, list[int]]:
    """The tokens of greedy rows and of rows for the Triton kernels, and the rows left to torch."""
    sampled_rows = [row for row, s in enumerate(sequences) if not s.greedy]
    kernel_rows = (
        _native_rows(sampled_rows, sequences, processed_logits) if triton_sampling.supports(logits) else []
    )
    params = [_sampled_row(row, sequences[row]) for row in kernel_rows]
    if kernel_rows and len(kernel_rows) == len(sequences):
        return SelectedTokens(*triton_sampling.sample(logits, params)), []
    max_values, token_ids = logits.max(-1)
    selected = SelectedTokens(max_values.float(), token_ids)
    if kernel_rows:
        row_index = index_tensor(kernel_rows, logits)
        selected.max_values[row_index], selected.token_ids[row_index] = triton_sampling.sample(logits, params)
    return selected, sorted(set(sampled_rows).difference(kernel_rows))


def _sampled_row(row: int, sequence: Sequence) -> SampledRow:
    sampling = sequence.task.sampling
    return SampledRow(
        row,
        sequence.task.seed,
        sequence.num_output_tokens,
        sampling.temperature,
        sampling.top_k,
        sampling.top_p,
        sampling.min_p,
    )


def _select_native(
    logits: Tensor, sequences: SequenceOf[Sequence], processed_logits: dict[int, Tensor]
) -> tuple[SelectedTokens, list[int]]:
    """The tokens that native code selects, and the rows left to torch, whose tokens are not set."""
    selected = SelectedTokens(torch.empty(len(sequences)), torch.empty(len(sequences), dtype=torch.int64))
    greedy_rows = [row for row, s in enumerate(sequences) if s.greedy]
    sampled_rows = [row for row, s in enumerate(sequences) if not s.greedy]
    native_rows = _native_rows(sampled_rows, sequences, processed_logits)
    torch_rows = set(sampled_rows).difference(native_rows)
    if greedy_rows:
        row_index = index_tensor(greedy_rows, logits)
        selected.max_values[row_index], selected.token_ids[row_index] = native.argmax(logits, row_index)
    if native_rows:
        row_index = index_tensor(native_rows, logits)
        ids = _gumbel_argmax(logits, row_index, [sequences[row] for row in native_rows])
        selected.token_ids[row_index] = ids
        selected.max_values[row_index] = torch.where(ids >= 0, 0.0, NEG_INF)
        torch_rows.update(row_index[ids == native.AMBIGUOUS].tolist())
    return selected, sorted(torch_rows)


def _native_rows(
    sampled_rows: list[int], sequences: SequenceOf[Sequence], processed_logits: dict[int, Tensor]
) -> list[int]:
    """The rows that native code and the Triton kernels can sample: their distribution is not asked for."""
    return [
        row
        for row in sampled_rows
        if row not in processed_logits and _is_native_order(active_warpers(sequences[row]))
    ]


def _is_native_order(warpers: tuple[str, ...]) -> bool:
    """Whether native code applies these warpers, in this order."""
    return not warpers or warpers == tuple(name for name in NATIVE_WARPERS if name in warpers)


def _gumbel_argmax(logits: Tensor, row_index: Tensor, sequences: SequenceOf[Sequence]) -> Tensor:
    """Ids (n,) that native code samples for the rows `row_index`; below 0 for rows without a token."""
    samplings = [s.task.sampling for s in sequences]
    temperatures = torch.tensor([each.temperature for each in samplings], dtype=torch.float32).clamp_(
        MIN_TEMPERATURE, MAX_TEMPERATURE
    )
    states = rng_states([s.task.seed for s in sequences], [s.num_output_tokens for s in sequences])
    return native.gumbel_argmax(
        logits, row_index, states, temperatures, _cutoffs(logits, row_index, temperatures, samplings)
    )


def _cutoffs(
    logits: Tensor, row_index: Tensor, temperatures: Tensor, samplings: SequenceOf[Sampling]
) -> Tensor | None:
    """The cutoffs of top_k, top_p and min_p for native code; None if no row uses them."""
    if not any(each.top_k or each.top_p < 1 or each.min_p for each in samplings):
        return None
    top_k = torch.tensor([min(each.top_k, logits.shape[1]) for each in samplings], dtype=torch.int32)
    shares = [each.top_p for each in samplings], [each.min_p for each in samplings]
    top_p, min_p = torch.tensor(shares, dtype=torch.float32)
    return native.compute_cutoffs(logits, row_index, temperatures, top_k, top_p, min_p)
