"""The random numbers of a test do not depend on those that were drawn before it."""

import random

import pytest
import torch

FIRST = torch.rand(3, generator=torch.Generator().manual_seed(0))


@pytest.fixture(params=[5, 6])
def drawn_before(request: pytest.FixtureRequest) -> None:
    """What an earlier test would have drawn, if it came before the fixture of the file."""
    torch.manual_seed(request.param)


@pytest.fixture(scope="module")
def shared_values() -> torch.Tensor:
    return torch.rand(3)


def test_what_tests_share_is_drawn_from_a_seed_of_its_own(
    drawn_before: None, request: pytest.FixtureRequest
) -> None:
    assert torch.equal(request.getfixturevalue("shared_values"), FIRST)


@pytest.mark.parametrize("number", range(2))
def test_each_test_draws_the_same_numbers(number: int) -> None:
    assert torch.equal(torch.rand(3), FIRST) and random.random() == random.Random(0).random()
