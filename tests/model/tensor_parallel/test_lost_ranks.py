"""A rank that cannot start, fails alone or is killed is reported at once, and nothing keeps waiting."""

from contextlib import closing
from pathlib import Path

import pytest

from inference.errors import BadRequest, Unavailable
from inference.model.tensor_parallel.executor import MultiProcess
from tests.model.tensor_parallel.shared_model import FAILING_TOKEN, load_recipe, prompt_batch
from tests.tiny_models import tiny

pytestmark = pytest.mark.slow


def test_a_rank_that_fails_alone_ends_and_rank_0_reports_it(tmp_path: Path) -> None:
    messages: list[str] = []
    with closing(MultiProcess(load_recipe(tiny.llama(tmp_path), except_first_rank=True))) as together:
        _, selected = together.start()
        together.on_lost(messages.append)
        runner = together.wrap_runner(selected.runner)
        with pytest.raises(
            Unavailable, match="rank 1 has ended with exit code 1: the server must be restarted"
        ):
            runner.forward(prompt_batch(FAILING_TOKEN))
        assert len(messages) == 1
        with pytest.raises(Unavailable, match="the server must be restarted"):
            runner.forward(prompt_batch(5))


def test_an_error_that_all_ranks_share_is_the_one_of_rank_0_and_leaves_no_rank_behind(tmp_path: Path) -> None:
    tiny.llama(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"damaged")
    together = MultiProcess(load_recipe(tmp_path))
    with pytest.raises(BadRequest, match=r"^MODEL_NAME has weights that cannot be loaded"):
        together.start()
    assert not any(process.is_alive() for process in together.ranks.processes)
