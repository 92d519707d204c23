"""Models of several families, sharded over two ranks, give the same tokens as one process."""

import multiprocessing
from pathlib import Path

import pytest

from inference.model import process_group
from tests.families import tiny
from tests.shared_model import NEW, PROMPTS, RANKS, generate, run_rank

FAMILIES = ("llama", "qwen3", "mixtral", "cohere")  # an odd vocabulary size: shards are unequal


@pytest.mark.slow
def test_two_ranks_answer_like_one_process(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in FAMILIES]
    for folder in folders:
        tiny(folder.name).save_pretrained(folder)
    context, store = multiprocessing.get_context("spawn"), process_group.create_store(RANKS)
    pipes = [context.Pipe() for _ in range(RANKS)]
    processes = [
        context.Process(target=run_rank, args=(rank, store.port, folders, pipe), daemon=True)
        for rank, (_, pipe) in enumerate(pipes)
    ]
    for process, (_, theirs) in zip(processes, pipes, strict=True):
        process.start()
        theirs.close()
    for name in FAMILIES:
        alone = generate(tiny(name))
        assert [len(ids) for ids in alone] == [NEW] * len(PROMPTS)
        size = sum(weight.numel() for weight in tiny(name).parameters())
        for ours, _ in pipes:
            together, num_weights = ours.recv()
            assert together == alone, name
            assert num_weights < 0.6 * size, f"{name}: a rank holds {num_weights} of {size} weights"
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
