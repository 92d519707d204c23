"""Exchanges with scripted tokens against the original's answers: stops, sequences, penalties, counts."""

from typing import Any

import pytest

from tests.api.neodim.conftest import client, vectors
from tests.api.neodim.tokenizers import ScriptedBackend

SCRIPTED = {case["name"]: case for case in vectors("scripted")}
NEWER = {case["name"]: case for case in vectors("scripted_v013_only")}
# Exchanges in which the contract deviates from the original; each has its own test.
DEVIATIONS = ("stop-span-prompt-boundary", "utf8-stop-emoji", "budget-zero-no-preamble")
NEWER_DEVIATIONS = ("regex-two-order", "stop-as-string", "allow")


def get_reply(case: dict[str, Any]) -> dict[str, Any]:
    utf8 = case["tokenizer"] == "utf8"
    scripts = [[bytes.fromhex(token) for token in script] if utf8 else script for script in case["script"]]
    response = client(ScriptedBackend(case["tokenizer"], *scripts)).post("/generate", json=case["request"])
    return response.get_json()


def check(reply: dict[str, Any], recorded: dict[str, Any]) -> None:
    """Every recorded field must be in the reply with its value; the reply may have more."""
    sequences = zip(reply.pop("sequences", ()), recorded.get("sequences", ()), strict=True)
    for ours, theirs in sequences:
        assert {name: ours[name] for name in theirs} == theirs
    rest = {name: value for name, value in recorded.items() if name != "sequences"}
    assert {name: reply.get(name) for name in rest} == rest


@pytest.mark.parametrize("name", [name for name in SCRIPTED if name not in DEVIATIONS])
def test_an_exchange_matches_the_readme(name: str) -> None:
    case = SCRIPTED[name]
    check(get_reply(case), case.get("documented", case["v0_2"]))


@pytest.mark.parametrize("name", [name for name in NEWER if name not in NEWER_DEVIATIONS])
def test_features_of_newer_releases_match_those_releases(name: str) -> None:
    check(get_reply(NEWER[name]), NEWER[name]["v0_13"])


def test_a_stop_string_across_the_prompts_end_stops_nothing() -> None:
    (sequence,) = get_reply(SCRIPTED["stop-span-prompt-boundary"])["sequences"]
    assert (sequence["generated_text"], sequence["stop_string"]) == (" I saw a cat, but it ran", "")


def test_a_character_of_many_tokens_stops_once_it_is_complete() -> None:
    report = get_reply(SCRIPTED["utf8-stop-emoji"])
    assert report["generated_tokens_count"] == len(" а🐈".encode())
    assert (
        report["sequences"][0] | {"generated_text": " а", "stop_string": "🐈", "trimmed_tail": ""}
        == (report["sequences"][0])
    )


def test_no_room_for_a_prompt_without_a_preamble_is_an_error() -> None:
    error = "RuntimeError: Cannot fit the prompt in 0 tokens while using specified stop_strings"
    assert get_reply(SCRIPTED["budget-zero-no-preamble"]) == {"error": error}


def test_the_earliest_match_of_several_patterns_stops_in_any_order() -> None:
    (sequence,) = get_reply(NEWER["regex-two-order"])["sequences"]
    assert (sequence["generated_text"], sequence["stop_string"], sequence["trimmed_tail"]) == (
        " I saw a ",
        "c",
        "at",
    )


def test_a_stop_string_that_is_no_list_is_a_list_of_one() -> None:
    (sequence,) = get_reply(NEWER["stop-as-string"])["sequences"]
    assert (sequence["generated_text"], sequence["stop_string"]) == (" I saw a ", "ca")


def test_allow_from_the_readme_means_expand() -> None:
    case = NEWER["allow"]
    expand = get_reply(
        {**case, "request": case["request"] | {"repetition_penalty_include_generated": "expand"}}
    )
    assert get_reply(case) | {"seed": 0} == expand | {"seed": 0}
    assert expand["used_repetition_penalty_range_at_end"] == 18
