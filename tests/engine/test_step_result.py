"""The errors of sequences that got no token."""

import re
from types import SimpleNamespace

import pytest

from inference.engine.sampling.sampler import NO_ALLOWED_TOKEN
from inference.engine.step_result import error_for
from inference.errors import BadRequest


@pytest.mark.parametrize(
    ("failure", "message"),
    [("NoExtensionBias", r"response format allows no token .*\(NoExtensionBias\)"), ("", "no token is left")],
)
def test_a_sequence_without_a_token_says_whether_its_format_ended(failure: str, message: str) -> None:
    error = error_for(NO_ALLOWED_TOKEN, SimpleNamespace(failure=failure))  # type: ignore[arg-type]
    assert isinstance(error, BadRequest) and re.search(message, error.message)
