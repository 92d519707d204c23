"""Exchanges against the original's answers to scripted tokens: stops, sequences, penalties, counts."""

from typing import Any

import pytest

from tests.api.neodim.conftest import client, vectors
from tests.api.neodim.tokenizers import ScriptedBackend

SCRIPTED = {case["name"]: case for case in vectors("scripted")}
NEWER = {case["name"]: case for case in vectors("scripted_v013_only")}
# Where the contract has us do otherwise; each is told by a test of its own.
OTHERWISE = ("stop-span-prompt-boundary", "utf8-stop-emoji", "budget-zero-no-preamble")
NEWER_OTHERWISE = ("regex-two-order", "stop-as-string", "allow")


def said(case: dict[str, Any]) -> dict[str, Any]:
    utf8 = case["tokenizer"] == "utf8"
    scripts = [[bytes.fromhex(piece) for piece in script] if utf8 else script for script in case["script"]]
    response = client(ScriptedBackend(case["tokenizer"], *scripts)).post("/generate", json=case["request"])
    return response.get_json()


def check(said: dict[str, Any], recorded: dict[str, Any]) -> None:
    """Every field that was recorded is said; ours has more."""
    sequences = zip(said.pop("sequences", ()), recorded.get("sequences", ()), strict=True)
    for ours, theirs in sequences:
        assert {name: ours[name] for name in theirs} == theirs
    rest = {name: value for name, value in recorded.items() if name != "sequences"}
    assert {name: said.get(name) for name in rest} == rest


@pytest.mark.parametrize("name", [name for name in SCRIPTED if name not in OTHERWISE])
def test_an_exchange_goes_as_the_readme_has_it(name: str) -> None:
    case = SCRIPTED[name]
    check(said(case), case.get("documented", case["v0_2"]))


@pytest.mark.parametrize("name", [name for name in NEWER if name not in NEWER_OTHERWISE])
def test_what_newer_releases_brought_goes_as_there(name: str) -> None:
    check(said(NEWER[name]), NEWER[name]["v0_13"])


def test_a_stop_string_over_the_prompts_end_stops_nothing() -> None:
    (sequence,) = said(SCRIPTED["stop-span-prompt-boundary"])["sequences"]
    assert (sequence["generated_text"], sequence["stop_string"]) == (" I saw a cat, but it ran", "")


def test_a_character_of_many_tokens_stops_as_soon_as_it_is_there() -> None:
    report = said(SCRIPTED["utf8-stop-emoji"])
    assert report["generated_tokens_count"] == len(" а🐈".encode())
    assert (
        report["sequences"][0] | {"generated_text": " а", "stop_string": "🐈", "trimmed_tail": ""}
        == (report["sequences"][0])
    )


def test_no_room_for_a_prompt_alone_is_an_error() -> None:
    error = "RuntimeError: Cannot fit the prompt in 0 tokens while using specified stop_strings"
    assert said(SCRIPTED["budget-zero-no-preamble"]) == {"error": error}


def test_of_several_patterns_the_earliest_stops_whatever_is_listed_first() -> None:
    (sequence,) = said(NEWER["regex-two-order"])["sequences"]
    assert (sequence["generated_text"], sequence["stop_string"], sequence["trimmed_tail"]) == (
        " I saw a ",
        "c",
        "at",
    )


def test_a_stop_string_that_is_no_list_is_a_list_of_one() -> None:
    (sequence,) = said(NEWER["stop-as-string"])["sequences"]
    assert (sequence["generated_text"], sequence["stop_string"]) == (" I saw a ", "ca")


def test_the_readmes_allow_is_taken_for_expand() -> None:
    case = NEWER["allow"]
    expand = said({**case, "request": case["request"] | {"repetition_penalty_include_generated": "expand"}})
    assert said(case) | {"seed": 0} == expand | {"seed": 0}
    assert expand["used_repetition_penalty_range_at_end"] == 18
