"""The layout of quantized weights on a GPU: words of 32 bits, each with the integers of several inputs.

A block of WORDS words has as many groups of WORDS inputs as a word has fields: word t has input t of the
first group in its lowest bits, input t of the second group in the next ones. So a group's integers are in the
same bits of adjacent words, as the inputs that they are multiplied with are adjacent. Knows tensors; no
arithmetic.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from inference.native.packed_matrix import GROUP
from inference.native.prefault import round_up

WORDS = GROUP  # words of a block, and inputs of a group


def padded_inputs(inputs: int, bits: int) -> int:
    """The inputs of whole blocks of words: what a row of integers is padded to."""
    return round_up(inputs, WORDS * (32 // bits))


def pack_words(integers: Tensor, bits: int) -> Tensor:
    """Signed integers (outputs, inputs) of so many bits → int32 (outputs, words); 0 beyond the inputs."""
    fields = 32 // bits
    inputs = integers.shape[1]
    padded = pad(integers, (0, padded_inputs(inputs, bits) - inputs))
    unsigned = padded.to(torch.int64) + (1 << (bits - 1))
    blocks = unsigned.unflatten(1, (-1, fields, WORDS))
    shifts = bits * torch.arange(fields, device=integers.device)[:, None]
    words = (blocks << shifts).sum(2).flatten(1)
    return (words - (words >> 31 << 32)).to(torch.int32)


def integers_of(words: Tensor, bits: int, inputs: int) -> Tensor:
    """The inverse of pack_words: int8 integers (outputs, inputs)."""
    fields = 32 // bits
    shifts = bits * torch.arange(fields, device=words.device)[:, None]
    blocks = words.unflatten(1, (-1, 1, WORDS)) >> shifts
    integers = (blocks & ((1 << bits) - 1)) - (1 << (bits - 1))
    return integers.flatten(1)[:, :inputs].to(torch.int8)
