"""An error and the fastest option are measured once; later a part of an error must not exceed it."""

import math
from pathlib import Path

import pytest

from inference.model import remembered_trials
from inference.model.remembered_trials import MAX_FILES, RememberedChoices, RememberedErrors


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "errors" / "model.json"


def refuse() -> float:
    raise AssertionError("measured again")


def test_a_later_load_measures_a_part(path: Path) -> None:
    assert RememberedErrors(path).measure("fused", lambda: 0.2) == 0.2
    assert RememberedErrors(path).measure("fused", refuse, lambda: 0.1) == 0.2
    assert RememberedErrors(path).measure("paged", lambda: 0.3) == 0.3
    assert RememberedErrors(path).measure("fused", refuse) == 0.2


@pytest.mark.parametrize("error", [0.5, math.inf, math.nan])
def test_a_part_that_is_wrong_now_counts(path: Path, error: float) -> None:
    RememberedErrors(path).measure("fused", lambda: 0.2)
    measured = RememberedErrors(path).measure("fused", refuse, lambda: error)
    assert not measured <= 0.2 and repr(measured) == repr(error)


def test_an_error_that_is_not_a_number_is_measured_again(path: Path) -> None:
    assert math.isnan(RememberedErrors(path).measure("fused", lambda: math.nan))
    assert RememberedErrors(path).measure("fused", lambda: 0.2) == 0.2


@pytest.mark.parametrize("content", ["", "[]", '{"fused": "wide"}', '{"fused": null}'])
def test_a_damaged_file_is_measured_again(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    assert RememberedErrors(path).measure("fused", lambda: 0.2) == 0.2
    assert RememberedErrors(path).measure("fused", refuse) == 0.2


@pytest.mark.system("posix")
def test_errors_that_another_user_may_have_written_are_measured_again(path: Path) -> None:
    RememberedErrors(path).measure("fused", lambda: 0.25)
    path.chmod(0o666)
    assert RememberedErrors(path).measure("fused", lambda: 0.5) == 0.5


def test_without_a_path_nothing_is_remembered() -> None:
    errors = RememberedErrors()
    assert [errors.measure("fused", lambda: 0.2), errors.measure("fused", lambda: 0.3)] == [0.2, 0.3]


def test_the_last_models_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered_trials, "MAX_FILES", 2)
    for name in range(4):
        RememberedErrors(tmp_path / f"{name}.json").measure("fused", lambda: 0.2)
    assert len(list(tmp_path.iterdir())) == 2 < MAX_FILES


def test_the_fastest_of_some_options_is_remembered(path: Path) -> None:
    RememberedChoices(path).remember("fused; paged", "fused")
    RememberedChoices(path).remember("paged", "paged")
    assert RememberedChoices(path).fastest == {"fused; paged": "fused", "paged": "paged"}
    RememberedChoices(path).remember("fused; paged", "paged")
    assert RememberedChoices(path).fastest["fused; paged"] == "paged"


@pytest.mark.system("posix")
def test_a_choice_that_another_user_may_have_written_is_none(path: Path) -> None:
    RememberedChoices(path).remember("fused; paged", "fused")
    path.chmod(0o666)
    assert not RememberedChoices(path).fastest


def test_without_a_path_no_choice_is_remembered() -> None:
    choices = RememberedChoices()
    choices.remember("fused; paged", "fused")
    assert not choices.fastest
