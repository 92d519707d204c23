"""The Triton kernels of low-rank outputs, in Triton's interpreter where there is no GPU."""

import pytest
import torch

pytest.importorskip("triton", reason="comes only with the CUDA build of torch")

from inference.model.lora.triton_low_rank import add_low_rank

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
INPUTS, OUTPUTS = 300, 200  # neither a multiple of a tile


@pytest.mark.gpu
@pytest.mark.parametrize("ranks", [(1, 16), (8, 3), (40, 128)])
def test_tokens_get_the_outputs_of_their_slots(ranks: tuple[int, int]) -> None:
    check_outputs(ranks)


@pytest.mark.skipif(DEVICE == "cuda", reason="compiled there")
def test_the_interpreter_computes_the_same() -> None:
    check_outputs((3, 40))


def check_outputs(ranks: tuple[int, int]) -> None:
    """Five tokens: two of each pair, one without; the output is a view with gaps between its rows."""
    a = [torch.randn(rank, INPUTS, device=DEVICE) for rank in ranks]
    b_t = [torch.randn(rank, OUTPUTS, device=DEVICE) for rank in ranks]
    table = torch.zeros(4, 3, dtype=torch.int64, device=DEVICE)
    for slot, (mine, theirs) in enumerate(zip(a, b_t, strict=True), 2):
        table[slot] = torch.tensor([mine.data_ptr(), theirs.data_ptr(), len(mine)])
    slots = torch.tensor([2, 3, 0, 3, 2], dtype=torch.int32, device=DEVICE)
    x = torch.randn(5, INPUTS, device=DEVICE)
    output = torch.randn(5, OUTPUTS + 30, device=DEVICE)
    expected = output.clone()
    for token, slot in enumerate(slots.tolist()):
        if slot:
            expected[token, :OUTPUTS] += x[token] @ a[slot - 2].T @ b_t[slot - 2]
    add_low_rank(x, output[:, :OUTPUTS], slots, table, max(ranks))
    assert torch.allclose(output, expected, rtol=1e-4, atol=1e-2)
