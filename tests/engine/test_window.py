"""The window's weights by hand; tests of the original's vectors are beside this."""

import pytest

from inference.engine.window import weights
from inference.sampling import Window


def test_without_a_slope_all_in_the_window_weigh_the_same() -> None:
    assert weights(Window((1, 2, 3), 1.5, 2), []) == {2: 1.5, 3: 1.5}
    assert weights(Window((1, 2, 3), 1.5, 1, slope=4.0), []) == {3: 1.5}


def test_a_straight_slope_rises_from_one_to_the_penalty() -> None:
    assert weights(Window((1, 2, 3), 3.0, 3, slope=1.0), []) == {1: 1.0, 2: 2.0, 3: 3.0}


def test_a_steep_slope_is_an_s() -> None:
    rising = list(weights(Window(tuple(range(9)), 2.0, 9, slope=4.0), []).values())
    assert rising == sorted(rising) and rising[0] == 1.0 and rising[4] == 1.5 and rising[8] == 2.0
    assert rising[1] < 1.125 and rising[7] > 1.875


def test_the_last_place_of_a_token_counts() -> None:
    assert weights(Window((1, 2, 1), 3.0, 3, slope=1.0), []) == {1: 3.0, 2: 2.0}


def test_a_window_longer_than_the_text_begins_before_it_unless_kept_within() -> None:
    assert weights(Window((1, 2), 5.0, 5, slope=1.0), []) == {1: 4.0, 2: 5.0}
    assert weights(Window((1, 2), 5.0, 5, slope=1.0, within=True), []) == {1: 1.0, 2: 5.0}


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("ignore", {2: 1.0, 3: 3.0}),
        ("slide", {3: 1.0, 4: 3.0}),
        ("expand", {2: 1.0, 3: 2.0, 4: 3.0}),
    ],
)
def test_a_scope_says_what_generated_tokens_do(scope: str, expected: dict[int, float]) -> None:
    assert weights(Window((1, 2, 3), 3.0, 2, slope=1.0, scope=scope), [4]) == expected


@pytest.mark.parametrize("scope", ["ignore", "slide", "expand"])
def test_no_window_and_no_text_penalise_nothing(scope: str) -> None:
    assert weights(Window((), 2.0, 5, slope=2.0, scope=scope), []) == {}
    assert weights(Window((1, 2), 2.0, 0, slope=2.0, scope=scope), []) == {}


def test_a_window_of_a_million_places_costs_no_more_than_its_text() -> None:
    reaching = weights(Window((1, 2), 2.0, 10**12, slope=1.0), [3])
    assert list(reaching) == [1, 2, 3] and reaching[3] == 2.0
