"""Rank 0 here and another rank in its own process: steps, searches, failures on both."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.contrastive_search.search import search
from inference.model.batch import Runner
from inference.model.load.loader import LoadedModel
from inference.model.runner_selection.select_runner import SelectedRunner
from inference.model.tensor_parallel.executor import MultiProcess
from tests.model.tensor_parallel.shared_model import FAILING_TOKEN, load_recipe, prompt_batch
from tests.tiny_models import tiny

pytestmark = pytest.mark.slow

Opened = tuple[MultiProcess, LoadedModel, SelectedRunner]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.llama(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def single_model(folder: Path) -> Any:
    """Loaded before the ranks start, so that it is not sharded."""
    return load_recipe(folder).load().model


@pytest.fixture(scope="module")
def shared(folder: Path, single_model: Any) -> Iterator[Opened]:
    together = MultiProcess(load_recipe(folder))
    yield together, *together.start()
    together.close()
    assert [process.exitcode for process in together.ranks.processes] == [0]


@pytest.fixture(scope="module")
def runner(shared: Opened) -> Runner:
    together, _, selected = shared
    return together.wrap_runner(selected.runner)


def test_a_step_is_computed_by_every_rank(runner: Runner, single_model: Any) -> None:
    with torch.inference_mode():
        expected = single_model(torch.tensor([[5, 6, 7]])).logits[0]
    assert torch.allclose(runner.forward(prompt_batch(5, 6, 7)), expected, atol=1e-5)


def test_a_step_that_fails_on_every_rank_is_followed_by_others(runner: Runner) -> None:
    before = runner.forward(prompt_batch(5, 6, 7)).clone()
    with pytest.raises(ValueError, match="this step fails"):
        runner.forward(prompt_batch(FAILING_TOKEN))
    assert torch.equal(runner.forward(prompt_batch(5, 6, 7)), before)


def test_hidden_states_are_those_of_the_whole_model(runner: Runner, single_model: Any) -> None:
    with torch.inference_mode():
        states = single_model.base_model(torch.tensor([[5, 6, 7]])).last_hidden_state[0]
    runner.forward(replace(prompt_batch(5, 6, 7), pooled_rows={0: "mean"}))
    assert torch.allclose(runner.hidden_sums, states.sum(0)[None], atol=1e-5)


def test_a_search_equals_that_of_the_whole_model(shared: Opened, single_model: Any) -> None:
    together, loaded, _ = shared
    options = {"k": 4, "alpha": 0.5, "process_logits": lambda logits: logits.float()}
    shared_search = together.run(search, loaded.model, (5, 6, 7), (), **options)
    expected = search(single_model, (5, 6, 7), (), **options)
    assert [next(shared_search) for _ in range(8)] == [next(expected) for _ in range(8)]
    shared_search.close()


def test_a_search_whose_edit_fails_is_followed_by_others(
    shared: Opened, runner: Runner, single_model: Any
) -> None:
    together, loaded, _ = shared

    def edit(logits: torch.Tensor) -> torch.Tensor:
        raise ArithmeticError("nothing is left to choose")

    with pytest.raises(ArithmeticError):
        next(together.run(search, loaded.model, (5, 6, 7), (), k=4, alpha=0.5, process_logits=edit))
    test_a_step_is_computed_by_every_rank(runner, single_model)


def test_a_search_whose_edited_logits_cannot_be_sent_is_followed_by_others(
    shared: Opened, runner: Runner, single_model: Any
) -> None:
    together, loaded, _ = shared
    options = {"k": 4, "alpha": 0.5, "process_logits": lambda logits: logits.bfloat16()}
    with pytest.raises(TypeError):
        next(together.run(search, loaded.model, (5, 6, 7), (), **options))
    test_a_step_is_computed_by_every_rank(runner, single_model)
