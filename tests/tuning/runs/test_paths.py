"""The names of checkpoints: what one may be, a path may have, and an adapter may be called."""

import pytest

from inference.errors import BadRequest
from inference.lora.adapter import check_name
from tuning.runs.paths import CheckpointPath, check_checkpoint_name, parse_path


@pytest.mark.parametrize("name", ["", ".a", "a..b", "a/b", "../a", "a\n", "ä", "a" * 129, "a b"])
def test_a_name_that_no_file_may_have_is_refused_alone_and_in_a_path(name: str) -> None:
    with pytest.raises(BadRequest, match=r"must have 1 to 128 letters, digits and \._-"):
        check_checkpoint_name(name)
    with pytest.raises(BadRequest, match="must be tinker://RUN/KIND/NAME"):
        parse_path(f"tinker://run/weights/{name}")


@pytest.mark.parametrize("name", ["0001", "a", "a.b-c_d.", "a" * 128])
def test_a_name_that_is_taken_names_an_adapter(name: str) -> None:
    check_checkpoint_name(name)
    path = CheckpointPath("s:train:0", "sampler_weights", name)
    assert parse_path(str(path)) == path
    check_name(str(path))
