"""Samples rows of logits on a GPU by two Triton kernels: the counterpart of native/sampling.py.

The first finds the cutoffs of top_k, top_p and min_p without a sort, the second adds the noise and finds the
best token; neither waits for the device. triton_sampling_kernel.py has what one program computes. The kernels
are used only where they sample the same tokens as torch. Knows tensors and parameters of rows; knows no
sequences.
"""

import logging
import math
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from functools import cache
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from inference.engine.sampling import warpers
from inference.engine.sampling.gumbel import add_gumbel_noise, rng_keys
from inference.errors import named_error
from inference.model.device_copy import to_device

log = logging.getLogger(__name__)

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
HOST = torch.device("cpu")
# Tokens and warps of a program. A program of the cutoffs reads its whole row, block by block.
ARGMAX_BLOCK, ARGMAX_WARPS = 1024, 4
CUTOFF_BLOCK, CUTOFF_WARPS = 4096, 16
# Triton compiles a kernel again for addresses and strides that are not multiples of this.
ALIGNMENT = 16
# What the kernels are verified with: temperature, top_k, top_p, min_p.
VERIFIED_PARAMETERS = (
    (1.0, 0, 1.0, 0.0),
    (0.6, 0, 1.0, 0.0),
    (1.0, 1, 1.0, 0.0),
    (1.0, 50, 1.0, 0.0),
    (1.0, 0, 0.0001, 0.0),
    (1.0, 0, 0.9, 0.0),
    (1.7, 0, 0.9999, 0.0),
    (1.0, 0, 1.0, 0.05),
    (0.8, 1000, 0.95, 0.01),
)
SPREADS = (0.5, 3.0, 12.0)  # standard deviations of the logits that the kernels are verified with
# Sums in another order may differ by this share of probability, and move the cutoff of top_p accordingly.
SLACK = 2e-5


class SampledRow(NamedTuple):
    """A row of the logits and how its token is sampled; the neutral values are those of Sampling."""

    row: int
    seed: int
    position: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    @property
    def is_cut(self) -> bool:
        """Whether a filter excludes tokens."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0


def supports(logits: Tensor) -> bool:
    """Whether the kernels sample from logits (W, V) of this device and layout: verified at the first call."""
    return (
        logits.is_cuda
        and logits.dtype in DTYPES
        and logits.stride(1) == 1
        and logits.data_ptr() % ALIGNMENT == 0
        and is_verified(logits.device, logits.dtype, logits.shape[1], logits.stride(0) % ALIGNMENT == 0)
    )


def warm_up(device: torch.device, dtype: torch.dtype, vocab: int) -> None:
    """Compile and verify the kernels for a model's logits and for their float32 copies; takes seconds."""
    if device.type != "cuda":
        return
    for each in {dtype, torch.float32}:
        for is_aligned in {True, vocab % ALIGNMENT == 0}:
            is_verified(device, each, vocab, is_aligned)


def sample(logits: Tensor, rows: SequenceOf[SampledRow]) -> tuple[Tensor, Tensor]:
    """Sample a token of each of the rows: their values (n,) float32 and ids (n,) int64.

    A value is not finite if the row holds NaN or +infinity, or if no token is left.
    """
    integers, floats = _parameters(logits, rows)
    with torch.cuda.device_of(logits):
        if any(each.is_cut for each in rows):
            cutoffs = _compute_cutoffs(logits, integers, floats)
        else:
            cutoffs = floats.new_full((len(rows),), float("-inf"))
        return _gumbel_argmax(logits, integers, floats, cutoffs)


def _parameters(logits: Tensor, rows: SequenceOf[SampledRow]) -> tuple[Tensor, Tensor]:
    """The parameters that the kernels read: (3, n) int64 and (3, n) float32."""
    keys = rng_keys([each.seed for each in rows], [each.position for each in rows], HOST)
    row_index, top_k = torch.tensor(
        [
            [each.row for each in rows],
            [each.top_k if each.top_k < logits.shape[1] else 0 for each in rows],
        ]
    )
    floats = torch.tensor(
        [
            [each.temperature for each in rows],
            [each.top_p for each in rows],
            [math.log(each.min_p) if each.min_p > 0 else -math.inf for each in rows],
        ],
        dtype=torch.float32,
    )
    floats[0].clamp_(warpers.MIN_TEMPERATURE, warpers.MAX_TEMPERATURE)
    return to_device(torch.stack([row_index, keys, top_k]), logits.device), to_device(floats, logits.device)


def _compute_cutoffs(logits: Tensor, integers: Tensor, floats: Tensor) -> Tensor:
    """The least logit / temperature (n,) that the filters of each row keep; -inf for a row without any."""
    cutoffs = floats.new_empty(floats.shape[1])
    _kernels().compute_cutoffs[len(cutoffs),](
        logits,
        integers,
        floats,
        cutoffs,
        logits.stride(0),
        VOCAB=logits.shape[1],
        BLOCK=CUTOFF_BLOCK,
        num_warps=CUTOFF_WARPS,
    )
    return cutoffs


def _gumbel_argmax(
    logits: Tensor, integers: Tensor, floats: Tensor, cutoffs: Tensor
) -> tuple[Tensor, Tensor]:
    """The largest logit / temperature + noise (n,) of the tokens that the cutoffs keep, and their ids."""
    num_blocks = -(-logits.shape[1] // ARGMAX_BLOCK)
    max_values = floats.new_empty(len(cutoffs), num_blocks)
    token_ids = integers.new_empty(max_values.shape)
    _kernels().gumbel_argmax[num_blocks, len(cutoffs)](
        logits,
        integers,
        floats,
        cutoffs,
        max_values,
        token_ids,
        logits.stride(0),
        VOCAB=logits.shape[1],
        BLOCK=ARGMAX_BLOCK,
        num_warps=ARGMAX_WARPS,
    )
    max_value, block = max_values.max(-1, keepdim=True)
    return max_value[:, 0], token_ids.gather(1, block)[:, 0]


@cache
def _kernels() -> ModuleType:
    """Raises ImportError without Triton."""
    from inference.engine.sampling import triton_sampling_kernel

    return triton_sampling_kernel


@cache
@torch.inference_mode()
def is_verified(device: torch.device, dtype: torch.dtype, vocab: int, is_aligned: bool) -> bool:
    """Whether the kernels can be compiled for logits (W, vocab) and agree with torch; compiles them.

    is_aligned: whether the stride of a row is a multiple of ALIGNMENT.
    """
    try:
        _kernels()
        _verify(*_random_logits(device, dtype, vocab, is_aligned))
    except Exception as raised:  # third-party code: any exception rejects the kernels
        log.info("sampling on %s: torch, Triton kernels rejected: %s", device, named_error(raised))
        return False
    log.info("sampling on %s: Triton kernels verified for %d logits in %s", device, vocab, dtype)
    return True


def _random_logits(
    device: torch.device, dtype: torch.dtype, vocab: int, is_aligned: bool
) -> tuple[Tensor, list[SampledRow]]:
    """Logits (W, vocab) with a row for each spread and each of VERIFIED_PARAMETERS, and those rows."""
    cases = [(spread, each) for spread in SPREADS for each in VERIFIED_PARAMETERS]
    spreads = torch.tensor([spread for spread, _ in cases])[:, None]
    stride = -(-vocab // ALIGNMENT) * ALIGNMENT + (not is_aligned)
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(len(cases), stride, generator=generator).mul_(spreads).to(device, dtype)
    rows = [SampledRow(row, 7 + row, row % 5, *each) for row, (_, each) in enumerate(cases)]
    return logits[:, :vocab], rows


def _verify(logits: Tensor, rows: list[SampledRow]) -> None:
    """Compare the kernels with torch; puts NaN into some logits. Raises ArithmeticError."""
    scaled, _, values, ids = sample_with_torch(logits, rows)
    integers, floats = _parameters(logits, rows)
    with torch.cuda.device_of(logits):
        is_kept = scaled >= _compute_cutoffs(logits, integers, floats)[:, None]
    fewest, most = (
        ~sample_with_torch(logits, [_with_slack(each, slack) for each in rows])[1].isneginf()
        for slack in (-SLACK, SLACK)
    )
    if not bool(((fewest <= is_kept) & (is_kept <= most)).all()):
        raise ArithmeticError("the filters keep other tokens than torch")
    max_values, token_ids = sample(logits, rows)
    if not torch.equal(token_ids, ids):
        raise ArithmeticError(f"{int((token_ids != ids).sum())} of {len(ids)} tokens differ from torch")
    if not torch.allclose(max_values, values, rtol=1e-5, atol=1e-5):
        raise ArithmeticError(f"values differ from torch by {float((max_values - values).abs().max()):.0e}")
    logits[::2, 3] = float("nan")
    if not torch.equal(sample(logits, rows)[0].isfinite(), ~logits.isnan().any(-1)):
        raise ArithmeticError("rows with NaN get a token")


def _with_slack(row: SampledRow, slack: float) -> SampledRow:
    return row._replace(top_p=row.top_p + slack) if row.top_p < 1 else row


def sample_with_torch(logits: Tensor, rows: SequenceOf[SampledRow]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same samples in torch: logits / temperature and warped logits (n, V), values and ids (n,)."""
    row_index = to_device(torch.tensor([each.row for each in rows]), logits.device)
    scaled = warpers.temperature(logits[row_index].float(), [each.temperature for each in rows])
    warped_logits = torch.cat([_warp(scaled[i : i + 1], each) for i, each in enumerate(rows)])
    keys = rng_keys([each.seed for each in rows], [each.position for each in rows], logits.device)
    values, ids = add_gumbel_noise(warped_logits.clone(), keys).max(-1)
    return scaled, warped_logits, values, ids


def _warp(logits: Tensor, row: SampledRow) -> Tensor:
    filters: Iterable[tuple[bool, str]] = (
        (row.top_k > 0, "top_k"),
        (row.top_p < 1, "top_p"),
        (row.min_p > 0, "min_p"),
    )
    for is_used, name in filters:
        logits = warpers.WARPERS[name].warp(logits, [getattr(row, name)]) if is_used else logits
    return logits
