"""The script that compares estimated and actual speed: its cases, and its GGUF files."""

from pathlib import Path

import pytest
from transformers import LlamaConfig

from checks.speed.estimate import SpeedEstimate
from inference.model.gguf.kept_bits import PACKED_DTYPES
from inference.model.load.gguf.file.header import read_header
from inference.native.structs import NativeDtype
from scripts.preflight.speed.__main__ import result_cells
from scripts.preflight.speed.cases import CASES
from scripts.preflight.speed.measure import SpeedResult
from scripts.preflight.speed.random_gguf import write_gguf

CONFIG = LlamaConfig(
    vocab_size=512,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
)


def test_the_cases_are_ten_or_more_with_distinct_names() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 10


def test_a_result_has_the_ratios_of_estimate_and_measurement() -> None:
    result = SpeedResult(SpeedEstimate(90.0, 0.6, other_load=0.25, startup_s=2.0), 100.0, 0.5, 2.5)
    assert result.ratios == pytest.approx((0.9, 1.2, 0.8))
    assert result_cells(result) == (
        *("90.0", "100.0", "0.90", "0.600", "0.500", "1.20"),
        *("2.00", "2.50", "0.80", "25%"),
    )


def test_a_random_file_has_the_formats_of_its_type(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(CONFIG, "Q4_K_M", path)
    data = path.read_bytes()
    header = read_header(lambda start, stop: data[start:stop], len(data), len(data))
    dtypes = {tensor.name: PACKED_DTYPES.get(tensor.ggml_type) for tensor in header.tensors or ()}
    assert dtypes["blk.0.ffn_down.weight"] is dtypes["token_embd.weight"] is NativeDtype.Q6_K
    assert dtypes["blk.1.ffn_down.weight"] is dtypes["blk.0.attn_q.weight"] is NativeDtype.Q4_K
