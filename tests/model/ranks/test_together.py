"""Rank 0 and another rank in a process of its own: steps, embeddings, searches, failures of both."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.model.batch import Runner
from inference.model.contrast import search
from inference.model.embed import embed
from inference.model.fit import Fitted
from inference.model.load import Loaded
from inference.model.ranks.together import Together
from tests import tiny
from tests.shared_model import FAILS, recipe, step

pytestmark = pytest.mark.slow

Opened = tuple[Together, Loaded, Fitted]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.llama(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def whole(folder: Path) -> Any:
    """Loaded before there are ranks, so that it is whole."""
    return recipe(folder).load().model


@pytest.fixture(scope="module")
def shared(folder: Path, whole: Any) -> Iterator[Opened]:
    together = Together(recipe(folder))
    yield together, *together.start()
    together.close()
    assert [process.exitcode for process in together.ranks.processes] == [0]


@pytest.fixture(scope="module")
def runner(shared: Opened) -> Runner:
    together, _, fitted = shared
    return together.runner(fitted.runner)


def test_a_step_is_computed_by_every_rank(runner: Runner, whole: Any) -> None:
    with torch.inference_mode():
        truth = whole(torch.tensor([[5, 6, 7]])).logits[0]
    assert torch.allclose(runner.forward(step(5, 6, 7)), truth, atol=1e-5)


def test_a_step_that_fails_on_every_rank_is_followed_by_others(runner: Runner) -> None:
    before = runner.forward(step(5, 6, 7)).clone()
    with pytest.raises(ValueError, match="this step fails"):
        runner.forward(step(FAILS))
    assert torch.equal(runner.forward(step(5, 6, 7)), before)


def test_embeddings_are_those_of_the_whole_model(shared: Opened, whole: Any) -> None:
    together, loaded, _ = shared
    texts = [(5, 6, 7), (9,)]
    found, truth = finished(together.embed(loaded.model, texts)), finished(embed(whole, texts))
    assert torch.allclose(torch.tensor(found), torch.tensor(truth), atol=1e-5)


def test_a_search_finds_what_it_finds_in_the_whole_model(shared: Opened, whole: Any) -> None:
    together, loaded, _ = shared
    asked = {"k": 4, "alpha": 0.5, "edit": lambda logits: logits.float()}
    found = together.search(loaded.model, (5, 6, 7), (), **asked)
    truth = search(whole, (5, 6, 7), (), **asked)
    assert [next(found) for _ in range(8)] == [next(truth) for _ in range(8)]
    found.close()


def test_a_search_whose_edit_fails_is_followed_by_others(shared: Opened, whole: Any) -> None:
    together, loaded, _ = shared

    def edit(logits: torch.Tensor) -> torch.Tensor:
        raise ArithmeticError("nothing is left to choose")

    with pytest.raises(ArithmeticError):
        next(together.search(loaded.model, (5, 6, 7), (), k=4, alpha=0.5, edit=edit))
    test_embeddings_are_those_of_the_whole_model(shared, whole)


def finished(work: Any) -> Any:
    """What a work returns."""
    try:
        while True:
            next(work)
    except StopIteration as done:
        return done.value
