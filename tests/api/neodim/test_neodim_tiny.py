"""The vectors' tiny model on the real engine, greedy, against the original server's output."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.backend import Backend
from tests.api.neodim.conftest import Ask, client, lines, vectors
from tests.api.neodim.tiny import tiny

CASES = {case["name"]: case for case in vectors("http_e2e_tiny")}
ALICE = CASES["gen0"]["request"]["prompt"]
LATE = " she left.OhHrosNokngeKaniceX sawi: say moment wButbleab flasY AliceThe"
# The original swaps two figures of the penalty, and reports more text than it penalises.
DIFFERENT_FIELDS = {
    "rp3-range10-slope-ignore": {
        "repetition_penalty_text_at_start": " the bank. And then she left.",
        "repetition_penalty_text_at_end": " the bank. And then she left.",
        "used_repetition_penalty_range_at_start": 10,
        "used_repetition_penalty_range_at_end": 10,
    },
    "rp3-range60-slope3-trunc": {
        "repetition_penalty_text_at_end": LATE,
        "used_repetition_penalty_range_at_end": 27,
    },
}


@pytest.fixture(scope="module")
def model() -> Iterator[Backend]:
    yield tiny()
    tiny().close()
    tiny.cache_clear()


@pytest.mark.parametrize("name", [name for name in CASES if name != "trunc-space"])
def test_the_tiny_model_writes_the_same_as_in_the_original(name: str, model: Backend) -> None:
    report = client(model).post("/generate", json=CASES[name]["request"]).get_json()
    recorded = CASES[name]["response"]
    changed = DIFFERENT_FIELDS.get(name, {})
    for ours, theirs in zip(report["sequences"], recorded.pop("sequences"), strict=True):
        expected = {field: changed.get(field, value) for field, value in theirs.items()}
        assert {field: ours[field] for field in theirs} == expected
    assert {field: report[field] for field in recorded} == {
        field: changed.get(field, value) for field, value in recorded.items()
    }


def test_a_prompt_much_longer_than_the_context_is_truncated(model: Backend) -> None:
    story = "And then she left. " * 1000
    fields = {
        "prompt": story,
        "max_total_tokens": 40,
        "generated_tokens_count": 2,
        "truncate_prompt_until": [". "],
    }
    report = client(model).post("/generate", json=fields).get_json()
    assert report["original_prompt_tokens_count"] > 5000
    assert report["used_input_tokens_count"] <= 38
    assert story.endswith(report["used_prompt"]) and report["used_prompt"].startswith("And")


def test_requests_that_failed_in_the_original_are_refused_or_have_a_meaning(model: Backend) -> None:
    cases = [case for case in vectors("http_errors") if case["path"] == "/generate"]
    assert len(cases) == 15
    for case in cases:
        response = client(model).post("/generate", data=case["body_sent"])
        assert response.status_code < 500
        assert ("error" in response.get_json()) == ('"allow"' not in case["body_sent"]), case


def test_a_prompt_still_over_its_budget_is_truncated_further(model: Backend) -> None:
    report = client(model).post("/generate", json=CASES["trunc-space"]["request"]).get_json()
    assert report["used_prompt"] == "by her sister on the bank. And then she left."
    assert report["output_tokens_count"] <= 40 < CASES["trunc-space"]["response"]["output_tokens_count"]


def test_the_end_token_is_generated_only_if_allowed(model: Backend, ask: Ask) -> None:
    hot = {"temperature": 90, "words_whitelist": ["Alice"], "generated_tokens_count": 50, "seed": 1}
    assert ask(model, **hot)["generated_tokens_count"] == 50
    early = ask(model, **hot, can_stop_early=True)
    assert 0 < early["generated_tokens_count"] < 50
    assert early["sequences"][0]["stop_string"] == ""


def test_a_seed_gives_the_same_answer_and_a_random_one_is_reported(model: Backend, ask: Ask) -> None:
    hot = {"temperature": 5, "sequences_count": 3}
    report = ask(model, **hot)
    assert ask(model, **hot, seed=report["seed"]) == report
    assert ask(model, **hot, seed=report["seed"] + 1)["sequences"] != report["sequences"]
    assert len({sequence["generated_text"] for sequence in report["sequences"]}) == 3


def test_banned_words_are_not_generated_and_a_whitelist_allows_no_others(model: Backend, ask: Ask) -> None:
    free = ask(model, prompt=ALICE, top_k=1)["sequences"][0]["generated_text"]
    assert free.startswith("OhH")
    sequence = ask(model, prompt=ALICE, top_k=1, words_blacklist_at_start=["Oh"])["sequences"][0]
    assert not sequence["generated_text"].startswith("Oh")
    sequence = ask(model, prompt=ALICE, top_k=1, words_blacklist=["ros"])["sequences"][0]
    assert "ros" in free and "ros" not in sequence["generated_text"]
    only = ask(model, prompt=ALICE, temperature=5, words_whitelist=["Alice", "bank"])["sequences"][0]
    assert set(only["generated_text"]) <= set(" Alicebank")


def test_contrastive_search_ignores_the_seed(model: Backend, ask: Ask) -> None:
    fields = {"prompt": ALICE, "penalty_alpha": 0.6, "top_k": 4}
    first, second = ask(model, **fields, seed=1), ask(model, **fields, seed=2)
    assert first["sequences"] == second["sequences"]


@settings(max_examples=12, deadline=None)
@given(
    stops=st.lists(st.sampled_from(["e", "th", " s", "\n", "ros", "OhH", "T", ""]), max_size=4),
    regex=st.booleans(),
    required=st.integers(1, 3),
    count=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_all_generated_text_is_returned_streamed_or_whole(
    model: Backend, stops: list[str], regex: bool, required: int, count: int, seed: int
) -> None:
    fields: dict[str, Any] = {
        "prompt": ALICE,
        "seed": seed,
        "sequences_count": count,
        "stop_strings": stops,
        "stop_strings_type": "regex" if regex else "string",
        "stop_strings_required_matches_count": required,
        "generated_tokens_count": 16,
        "max_total_tokens": 40,
        "truncate_prompt_until": [" "],
    }
    *tokens, report = lines(model, **fields)
    assert report["generated_tokens_count"] <= 16
    assert report["output_tokens_count"] <= 40
    assert ALICE.endswith(report["used_prompt"])
    for index, sequence in enumerate(report["sequences"]):
        own_lines = [line for line in tokens if line["index"] == index]
        names = ("generated_text", "stop_string_match", "trimmed_tail")
        generated = "".join(sequence[name] for name in names)
        assert "".join(line["text"] for line in own_lines) == generated
        assert sequence["output_text"] == report["used_prompt"] + generated
        assert any(line["stopped"] for line in own_lines) == bool(sequence["stop_string"])
        assert sequence["stop_string"] in ("", *stops)
