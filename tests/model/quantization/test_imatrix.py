"""A file of llama-imatrix gives each weight of a model the importance of its inputs, in both forms."""

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from inference.errors import BadRequest
from inference.model.quantization.imatrix import BadImatrix, importance_of, read_imatrix
from inference.model.quantization.quantize import pack_on, read_importance
from tests.model.quantization.imatrix_files import HIDDEN, NAME, SUMS, write_legacy
from tests.tiny_models.families import tiny

QUERY = "model.layers.1.self_attn.q_proj.weight"


def write_gguf(path: Path, name: str, sums: np.ndarray, counts: np.ndarray) -> Path:
    writer = gguf.GGUFWriter(str(path), "")
    writer.add_type("imatrix")
    writer.add_tensor(f"{name}.in_sum2", sums)
    writer.add_tensor(f"{name}.counts", counts)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_both_forms_hold_the_mean_squares(tmp_path: Path) -> None:
    counts = np.array([[4.0]], dtype=np.float32)
    new = read_imatrix(write_gguf(tmp_path / "a.gguf", NAME, SUMS[None], counts))
    old = read_imatrix(write_legacy(tmp_path / "a.dat", NAME, SUMS, 4))
    assert torch.equal(new[NAME], torch.from_numpy(SUMS / 4)) and torch.equal(old[NAME], new[NAME])


def test_an_expert_without_tokens_has_no_preference(tmp_path: Path) -> None:
    counts = np.array([[0.0], [2.0]], dtype=np.float32)
    path = write_gguf(tmp_path / "a.gguf", NAME, np.stack([SUMS, SUMS]), counts)
    assert torch.equal(read_imatrix(path)[NAME], torch.cat([torch.ones(HIDDEN), torch.from_numpy(SUMS / 2)]))


def test_weights_are_found_by_the_names_of_gguf_files(tmp_path: Path) -> None:
    model, path = (
        tiny("llama", hidden_size=HIDDEN).bfloat16(),
        write_legacy(tmp_path / "a.dat", NAME, SUMS, 1),
    )
    assert importance_of(model, path).keys() == {QUERY}
    plain = pack_on(tiny("llama", hidden_size=HIDDEN).bfloat16(), "q4_0", "cpu")
    weighed = pack_on(model, "q4_0", "cpu", importance_of(model, path))
    changed = [
        index
        for index, (first, second) in enumerate(zip(plain, weighed, strict=True))
        if not torch.equal(first.weight.values(), second.weight.values())
    ]
    assert len(changed) == 1


def test_each_expert_has_its_own_importance(tmp_path: Path) -> None:
    model, name = tiny("mixtral", hidden_size=HIDDEN).bfloat16(), "blk.1.ffn_gate_exps.weight"
    experts = model.config.num_local_experts
    sums = np.arange(1, experts * HIDDEN + 1, dtype=np.float32)
    ((_, importance),) = importance_of(model, write_legacy(tmp_path / "a.dat", name, sums, 1)).items()
    assert torch.equal(importance, torch.from_numpy(sums).view(experts, HIDDEN))


@pytest.mark.parametrize(
    ("name", "sums", "why"),
    [
        (NAME, SUMS[:-1], "63 values instead of 64"),
        ("blk.9.attn_q.weight", SUMS, "no entry for a weight of this model"),
        (NAME, SUMS * np.float32("nan"), "not finite"),
    ],
)
def test_a_file_of_another_model_is_refused(tmp_path: Path, name: str, sums: np.ndarray, why: str) -> None:
    path = write_legacy(tmp_path / "a.dat", name, sums, 1)
    with pytest.raises(BadRequest, match=why):
        read_importance(tiny("llama", hidden_size=HIDDEN).bfloat16(), path)


@pytest.mark.parametrize("content", [b"", b"{}", bytes(64), b"\x01\0\0\0" + b"\xff" * 64, b"GGUF" + bytes(9)])
def test_what_is_no_imatrix_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(BadImatrix):
        read_imatrix(tmp_path / "a")
    with pytest.raises(BadImatrix):
        read_imatrix(tmp_path / "missing")
