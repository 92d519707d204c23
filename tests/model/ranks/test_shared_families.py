"""Models of several families that two ranks share, each with its part: the same tokens as one process has."""

import multiprocessing
from pathlib import Path

import pytest

from inference.model import group
from tests.families import tiny
from tests.shared_model import NEW, PROMPTS, RANKS, answer_in_step, answers

FAMILIES = ("llama", "qwen3", "mixtral", "cohere")  # an odd vocabulary: parts are unequal


@pytest.mark.slow
def test_two_ranks_answer_as_one_process_does(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in FAMILIES]
    for folder in folders:
        tiny(folder.name).save_pretrained(folder)
    context, store = multiprocessing.get_context("spawn"), group.meeting(RANKS)
    pipes = [context.Pipe() for _ in range(RANKS)]
    processes = [
        context.Process(target=answer_in_step, args=(rank, store.port, folders, pipe), daemon=True)
        for rank, (_, pipe) in enumerate(pipes)
    ]
    for process, (_, theirs) in zip(processes, pipes, strict=True):
        process.start()
        theirs.close()
    for name in FAMILIES:
        alone = answers(tiny(name))
        assert [len(ids) for ids in alone] == [NEW] * len(PROMPTS)
        size = sum(weight.numel() for weight in tiny(name).parameters())
        for ours, _ in pipes:
            together, held = ours.recv()
            assert together == alone, name
            assert held < 0.6 * size, f"{name}: a rank holds {held} of {size} weights"
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
