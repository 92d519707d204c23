"""Weights quantized to GGUF's formats have the bits that llama.cpp gives them, at each level."""

import base64
import hashlib

import gguf
import numpy as np
import pytest
import torch
from torch import Tensor

from inference.native.cpu_levels import Level
from inference.native.packed_matrix import PANEL, PackedMatrix
from inference.native.structs import GGUF_SOURCES, NativeDtype

# The blocks that llama.cpp's quantize_row_*_ref makes of the first two of `recorded_rows`.
RECORDED = {
    NativeDtype.Q4_K: (
        "QgdGEvv6+fj/+ve1qYjLv4DmFzc3BsF6R5w1eJve/+2qd1PJZKgcYXN0cl4Ilmymc+coWmpZJ+V+N48GZ3qMnIp3Rd537VR3"
        "qMnIp3ZQ+HNPdscJOzoY54NaxlmA5hc3NwbBejacJXeb3v/tqXdTyVaqIVZXZ2dVQPlVGlOnCDpKOQelXhde9kdabGxZVyWd"
        "Bwg3Evv9+P7o8fj+LGf//kSJIlR2mKiWZFMKZBpShNUGBuWUUDZyNV2S5AQE045WoWegRmd6i4p4ZjOZVZgvZGZ2ZWNOx2MH"
        "YJb2N0g39pP1fxVrsxVFVUUkwGc0eAFldoeXhmVS6GT4YXW15ubFhJZhB2HGSGttbWpX9n1GfAVWZ3h3ZlX/dzJ22kFkZGNQ"
    ),
    NativeDtype.Q5_K: (
        "gANPEvv6+fn++va2y5j7rxLKJBQUFBIpJNMsUSOnT09PQGCfQD9BgHx8fHlxQg3yANwvf28Nk/WOOWvgNr3/22T/tpPYUDrB"
        "5+jjvQE8yFz23lC0xbJe2/5uDwzf5BkpBO6bve7bue5AkpFO/cDw5o78rwNmdSHfF7WMsxDcLn9vDaP1fjlb/za9/9tj/6aT"
        "nkVDrb/fz6yA87wVp18BZXZjAFyuH77tgKXJybSgTDzuA0kS+fr4/u3y9/4rNv/uqBMIEKBHT05EQCGMQRhGAgAgYgIECPIA"
        "MQrKICAiKyiaJWa6/kJiPtq3BtomtircDx77SsBuBmzMRukaCscfvkPOUIze9BcV4N12MrkvT8jb7NvWnK7WD9A7/W+Pbvwm"
        "+98rx3Yri6ubOZDfWPADu9wOHvzLlMHJ8LLqa9zciwg90g7SjYDG29rVrvz7jfkKvd/Q392r7+5k7aVyyNnHoA=="
    ),
    NativeDtype.Q6_K: (
        "/wexQCCF+VQjDAhP4kSwuDrwbBkBUacAvn+V/yTZtPnsFSdvMGsrH+34sdAn+JB0wAGYiA5OVvtAsLBK4EkKDtDGb7cBA/uQ"
        "AIOWx+0GQMAglAd0IgsHb/JEsMhX8HFYDx+ID+LB2wEsF+zH/PHrUTBc6//+2OIQNwnRxeMPmCxnIt6anp7TJUqkTumVUEBA"
        "XpqkDqUKo2RYGBhXYrkXqZhmgZ1tbV2ShylSqUcirq6enqMlSqROKZWQQEBVlqtBqk6nTqWvr6Wrp7KoVK6Agy8BEdRaENZM"
        "+yWvCMBgUrsAiikaPsEe2sa9pSbxsKHlAduk1MrwCX8M8mwApG2wIBTQAfDwAn+oCGgPYhHBksUWYABw0HwHoLAvMPLROQQI"
        "bXAE3KzE/yYG6vQALTGVc6BmYA5hAN2SFwQGAEofzIzFUT4J9/sARRXgwOKMnyQDHFr6VPoqlZDAlZWqLNZs2gZhrW1hpoYZ"
        "ptm0ZhKenpIkaWK03rginoqJio6TJUqlTuqmllZWmagDWaNoFbKioqK1uICWiZOkO4mENpeXoImGjDEB"
    ),
}
# The beginnings of the SHA-256 of the panels of what llama.cpp's quantize_row_*_impl makes of `recorded_rows`
# with `recorded_importance`.
RECORDED_BY_IMPORTANCE = {
    NativeDtype.Q4_0: "2ce16ba62e1710cc64942e67ebfcf3e7",
    NativeDtype.Q5_0: "dbfe14b705e48303e32ca97e8f27158d",
    NativeDtype.Q5_1: "c6f9912a0ac2444a4b47057fb2178393",
    NativeDtype.Q4_K: "28961f3cb2920bf9e2966e94f6a37bb0",
    NativeDtype.Q5_K: "9dae2328284155bf20bdeed487a8e9d1",
    NativeDtype.Q6_K: "ed4c187a9912cc98d0c2a7a91978756f",
}
SMALL_BLOCKS = (NativeDtype.Q8_0, NativeDtype.Q4_0, NativeDtype.Q5_0, NativeDtype.Q5_1)
INPUTS = 256


def recorded_rows() -> Tensor:
    """Weights of both signs, most of them small: two rows, repeated, (PANEL, INPUTS). Exact in float32."""
    numbers = torch.arange(2 * INPUTS)
    roots = ((numbers * numbers * 7919 + numbers * 104729) % 2003 - 900).float()
    return (roots * roots.abs() * 2.0**-24).view(2, INPUTS).repeat(PANEL // 2, 1)


def other_rows() -> Tensor:
    """Two panels of rows: with zeros, of one sign, tiny, of one value."""
    rows = torch.randn(2 * PANEL, INPUTS)
    rows[3] = 0
    rows[4, :40] = 0
    rows[5], rows[6] = rows[5].abs(), -rows[6].abs()
    rows[7] *= 1e-6
    rows[8] = 0.5
    return rows


def packed_blocks(blocks: np.ndarray, dtype: NativeDtype) -> PackedMatrix:
    return PackedMatrix.pack_gguf(torch.from_numpy(blocks), torch.arange(len(blocks)), INPUTS, dtype)


def has_same_bits(matrix: PackedMatrix, expected: PackedMatrix) -> bool:
    return torch.equal(matrix.values, expected.values) and torch.equal(matrix.scales, expected.scales)


@pytest.mark.parametrize("dtype", SMALL_BLOCKS, ids=lambda dtype: dtype.name)
def test_blocks_of_a_group_have_the_bits_of_gguf_py(level: Level, dtype: NativeDtype) -> None:
    for rows in (recorded_rows(), other_rows(), other_rows().bfloat16()):
        blocks = gguf.quantize(rows.float().numpy(), gguf.GGMLQuantizationType[dtype.name])
        assert has_same_bits(PackedMatrix.pack(rows, dtype), packed_blocks(blocks, dtype))


@pytest.mark.parametrize("dtype", RECORDED, ids=lambda dtype: dtype.name)
def test_super_blocks_have_the_bits_of_llama_cpp(level: Level, dtype: NativeDtype) -> None:
    blocks = np.frombuffer(bytearray(base64.b64decode(RECORDED[dtype])), dtype=np.uint8).reshape(2, -1)
    expected = packed_blocks(np.tile(blocks, (PANEL // 2, 1)), dtype)
    assert has_same_bits(PackedMatrix.pack(recorded_rows(), dtype), expected)


def recorded_importance() -> Tensor:
    return ((torch.arange(INPUTS) * 37) % 101 + 1) / 64


@pytest.mark.parametrize("dtype", RECORDED_BY_IMPORTANCE, ids=lambda dtype: dtype.name)
def test_with_an_importance_matrix_the_bits_are_those_of_llama_cpp(level: Level, dtype: NativeDtype) -> None:
    matrix = PackedMatrix.pack(recorded_rows(), dtype, None, recorded_importance())
    panels = matrix.values.numpy().tobytes() + matrix.scales.numpy().tobytes()
    assert hashlib.sha256(panels).hexdigest()[:32] == RECORDED_BY_IMPORTANCE[dtype]


@pytest.mark.parametrize("dtype", GGUF_SOURCES, ids=lambda dtype: dtype.name)
def test_each_row_is_quantized_by_itself(level: Level, dtype: NativeDtype) -> None:
    rows = other_rows()
    together = PackedMatrix.pack(rows, dtype).unpack()
    assert torch.equal(together[3], torch.zeros(INPUTS))
    for row in (0, 5, 6, 19):
        assert torch.equal(PackedMatrix.pack(rows[row : row + 1], dtype).unpack()[0], together[row])


@pytest.mark.parametrize("dtype", SMALL_BLOCKS, ids=lambda dtype: dtype.name)
def test_the_last_group_may_be_short(dtype: NativeDtype) -> None:
    rows = other_rows()[:, :70]
    padded = PackedMatrix.pack(torch.nn.functional.pad(rows, (0, 26)), dtype).unpack()
    assert torch.equal(PackedMatrix.pack(rows, dtype).unpack(), padded[:, :70])
