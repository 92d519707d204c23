"""Models of several families, sharded over two ranks, give the same tokens as one process."""

from pathlib import Path

import pytest

from tests.model.tensor_parallel.shared_model import NEW, PROMPTS, generate, generate_shared, running_ranks
from tests.tiny_models.families import tiny

FAMILIES = ("llama", "qwen3", "mixtral", "cohere")  # an odd vocabulary size: shards are unequal


@pytest.mark.slow
def test_two_ranks_answer_like_one_process(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in FAMILIES]
    for folder in folders:
        tiny(folder.name).save_pretrained(folder)
    with running_ranks(generate_shared, folders) as pipes:
        for name in FAMILIES:
            alone = generate(tiny(name))
            assert [len(ids) for ids in alone] == [NEW] * len(PROMPTS)
            size = sum(weight.numel() for weight in tiny(name).parameters())
            for ours in pipes:
                together, num_weights = ours.recv()
                assert together == alone, name
                assert num_weights < 0.6 * size, f"{name}: a rank holds {num_weights} of {size} weights"
