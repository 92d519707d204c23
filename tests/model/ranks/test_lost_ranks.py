"""A rank that cannot start, fails alone or is killed: told at once, and nothing is left waiting."""

from pathlib import Path

import pytest

from inference.errors import ServerError, Unavailable
from inference.model.ranks.together import Together
from tests import tiny
from tests.shared_model import FAILS, recipe, step

pytestmark = pytest.mark.slow


def test_a_rank_that_fails_alone_ends_and_rank_0_says_so(tmp_path: Path) -> None:
    told: list[str] = []
    together = Together(recipe(tiny.llama(tmp_path), alone=True))
    _, fitted = together.start()
    together.watch_with(told.append)
    runner = together.runner(fitted.runner)
    with pytest.raises(Unavailable, match="rank 1 has ended with exit code 1: the server must be restarted"):
        runner.forward(step(FAILS))
    with pytest.raises(Unavailable, match="the server must be restarted"):
        runner.forward(step(5))
    assert len(told) == 1
    together.close()


def test_a_model_that_cannot_be_loaded_leaves_no_rank_behind(tmp_path: Path) -> None:
    tiny.llama(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"damaged")
    together = Together(recipe(tmp_path))
    with pytest.raises(ServerError, match="has weights that cannot be loaded"):
        together.start()
    assert not any(process.is_alive() for process in together.ranks.processes)
