"""What is read of preamble and prompt, against what the original server read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.neodim.errors import Unfit
from api.neodim.prompt import Input, read
from api.neodim.texts import Texts
from tests.api.neodim.conftest import vectors
from tests.api.neodim.tiny import tiny
from tests.api.neodim.tokenizers import SPLITS, ScriptedBackend


def texts(kind: str) -> Texts:
    return Texts(tiny() if kind == "tiny_bpe" else ScriptedBackend(kind))


def cut(case: dict) -> Input:
    until = [each for each in case["truncate_prompt_until"] or [] if each]
    return read(texts(case["tokenizer"]), case["preamble"], case["prompt"], case["max_input_tokens"], until)


def flagged(case: dict) -> bool:
    return any(flag.startswith("original_bug") for flag in case["flags"])


TRUNCATION = vectors("truncation")
ALIKE = [case for case in TRUNCATION if not flagged(case) and case["prompt"] + case["preamble"]]
NO_ROOM = [case for case in TRUNCATION if "original_bug:zero_budget_keeps_whole_prompt" in case["flags"]]
BROKEN_HEAD = [case for case in TRUNCATION if "original_bug:broken_utf8_head_not_a_suffix" in case["flags"]]
OVER_BUDGET = [case for case in TRUNCATION if "original_bug:over_budget_after_retokenising" in case["flags"]]


def test_every_vector_is_looked_at() -> None:
    unsaid = [case for case in TRUNCATION if not case["prompt"] + case["preamble"]]
    looked_at = ALIKE + NO_ROOM + BROKEN_HEAD + OVER_BUDGET + unsaid
    assert len(looked_at) == len(TRUNCATION) == 336
    assert min(map(len, (ALIKE, NO_ROOM, BROKEN_HEAD, OVER_BUDGET))) > 0


@pytest.mark.parametrize("kind", [*SPLITS, "tiny_bpe"])
def test_a_prompt_is_cut_as_the_original_cuts_it(kind: str) -> None:
    for case in ALIKE:
        if case["tokenizer"] == kind:
            assert outcome(case) == case["v0_2"], case


def outcome(case: dict) -> dict:
    """In the words of the vectors."""
    try:
        result = cut(case)
    except Unfit as error:
        return {"error": f"RuntimeError: {error.message}"}
    told = {
        "preamble_tokens_count": result.fixed,
        "original_prompt_tokens_count": result.original,
        "original_input_tokens_count": result.fixed + result.original,
        "used_prompt": result.prompt,
        "used_prompt_tokens_count": len(result.prompt_ids),
        "used_input_tokens_count": len(result.ids),
        "decoded_input": result.preamble + result.prompt,
    }
    return {name: told[name] for name in case["v0_2"]}


def test_without_room_the_prompt_is_empty_behind_a_preamble_and_else_an_error() -> None:
    for case in NO_ROOM:
        if case["preamble"]:
            assert cut(case).prompt == ""
        else:
            with pytest.raises(Unfit, match="Cannot fit the prompt in 0 tokens"):
                cut(case)


def test_a_character_cut_in_two_is_left_out() -> None:
    for case in BROKEN_HEAD:
        assert cut(case).prompt == case["v0_2"]["used_prompt"].lstrip("\ufffd")


def test_a_cut_goes_on_until_the_rest_fits_its_budget() -> None:
    for case in OVER_BUDGET:
        assert len(cut(case).ids) <= case["max_input_tokens"] < case["v0_2"]["used_input_tokens_count"]
        assert case["v0_2"]["used_prompt"].endswith(cut(case).prompt)


@given(
    kind=st.sampled_from(list(SPLITS)),
    preamble=st.text("ab .é🐈", max_size=12),
    prompt=st.text("abc .,é🐈\n", max_size=60),
    budget=st.integers(-3, 40),
    until=st.lists(st.text("ab .é", min_size=1, max_size=3), max_size=3),
)
def test_what_is_used_ends_the_prompt_and_fits(
    kind: str, preamble: str, prompt: str, budget: int, until: list[str]
) -> None:
    try:
        result = read(texts(kind), preamble, prompt, budget, until)
    except Unfit:
        return
    assert prompt.endswith(result.prompt)
    assert 0 < len(result.ids) <= budget
    assert len(result.ids) == result.fixed + len(result.prompt_ids)


def test_special_tokens_neither_come_in_with_a_text_nor_count() -> None:
    backend = ScriptedBackend("words", marks=["<end>"])
    result = read(Texts(backend), "Now<end>: ", "He left<end>.", 20, ())
    assert (result.preamble, result.prompt) == ("Now: ", "He left.")
    assert backend.detokenize(result.ids) == "Now: He left."


def test_a_text_of_nothing_but_special_tokens_is_no_text() -> None:
    with pytest.raises(Unfit, match="Specify preamble and/or prompt"):
        read(Texts(ScriptedBackend("words", marks=["<end>"])), "<end>", "<end><end>", 20, ())


def test_what_begins_every_text_counts_with_the_preamble_and_is_never_cut() -> None:
    backend = ScriptedBackend("words", marks=["<s>"], begins="<s>")
    result = read(Texts(backend), "", "One two three four", 3, ())
    assert backend.detokenize(result.ids) == "<s> three four"
    assert (result.fixed, len(result.prompt_ids), result.original) == (1, 2, 4)
