"""The input built from preamble and prompt, against that of the original server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.neodim.errors import ImpossibleRequest
from api.neodim.prompt import ModelInput, PlainTokenizer, build_input
from tests.api.neodim.conftest import vectors
from tests.api.neodim.tiny import tiny
from tests.api.neodim.tokenizers import SPLITS, ScriptedBackend


def texts(kind: str) -> PlainTokenizer:
    return PlainTokenizer(tiny() if kind == "tiny_bpe" else ScriptedBackend(kind))


def truncate(case: dict) -> ModelInput:
    until = [each for each in case["truncate_prompt_until"] or [] if each]
    return build_input(
        texts(case["tokenizer"]), case["preamble"], case["prompt"], case["max_input_tokens"], until
    )


def has_original_bug(case: dict) -> bool:
    return any(flag.startswith("original_bug") for flag in case["flags"])


TRUNCATION = vectors("truncation")
ALIKE = [case for case in TRUNCATION if not has_original_bug(case) and case["prompt"] + case["preamble"]]
NO_ROOM = [case for case in TRUNCATION if "original_bug:zero_budget_keeps_whole_prompt" in case["flags"]]
BROKEN_HEAD = [case for case in TRUNCATION if "original_bug:broken_utf8_head_not_a_suffix" in case["flags"]]
OVER_BUDGET = [case for case in TRUNCATION if "original_bug:over_budget_after_retokenising" in case["flags"]]


def test_every_vector_is_used() -> None:
    empty_cases = [case for case in TRUNCATION if not case["prompt"] + case["preamble"]]
    looked_at = ALIKE + NO_ROOM + BROKEN_HEAD + OVER_BUDGET + empty_cases
    assert len(looked_at) == len(TRUNCATION) == 336
    assert min(map(len, (ALIKE, NO_ROOM, BROKEN_HEAD, OVER_BUDGET))) > 0


@pytest.mark.parametrize("kind", [*SPLITS, "tiny_bpe"])
def test_a_prompt_is_truncated_as_in_the_original(kind: str) -> None:
    for case in ALIKE:
        if case["tokenizer"] == kind and "error" not in outcome(case):
            assert outcome(case) == case["v0_2"], case


def test_what_the_original_refuses_is_refused_and_a_long_preamble_is_named() -> None:
    for case in ALIKE:
        error = outcome(case).get("error", "")
        assert bool(error) == ("error" in case["v0_2"]), case
        is_preamble = error.startswith("RuntimeError: Cannot fit the preamble in")
        assert not error or is_preamble or error == case["v0_2"]["error"], case
        assert is_preamble == bool(error and case["preamble"]), case


def outcome(case: dict) -> dict:
    """The result in the field names of the vectors."""
    try:
        result = truncate(case)
    except ImpossibleRequest as error:
        return {"error": f"RuntimeError: {error.message}"}
    fields = {
        "preamble_tokens_count": result.num_fixed_tokens,
        "original_prompt_tokens_count": result.num_original_tokens,
        "original_input_tokens_count": result.num_fixed_tokens + result.num_original_tokens,
        "used_prompt": result.prompt,
        "used_prompt_tokens_count": len(result.prompt_ids),
        "used_input_tokens_count": len(result.token_ids),
        "decoded_input": result.preamble + result.prompt,
    }
    return {name: fields[name] for name in case["v0_2"]}


def test_without_room_the_prompt_is_empty_after_a_preamble_and_else_an_error() -> None:
    for case in NO_ROOM:
        if case["preamble"]:
            assert truncate(case).prompt == ""
        else:
            with pytest.raises(ImpossibleRequest, match="Cannot fit the prompt in 0 tokens"):
                truncate(case)


def test_a_character_split_by_truncation_is_left_out() -> None:
    for case in BROKEN_HEAD:
        assert truncate(case).prompt == case["v0_2"]["used_prompt"].lstrip("\ufffd")


def test_truncation_continues_until_the_rest_fits_its_budget() -> None:
    for case in OVER_BUDGET:
        assert (
            len(truncate(case).token_ids)
            <= case["max_input_tokens"]
            < case["v0_2"]["used_input_tokens_count"]
        )
        assert case["v0_2"]["used_prompt"].endswith(truncate(case).prompt)


@given(
    kind=st.sampled_from(list(SPLITS)),
    preamble=st.text("ab .é🐈", max_size=12),
    prompt=st.text("abc .,é🐈\n", max_size=60),
    budget=st.integers(-3, 40),
    until=st.lists(st.text("ab .é", min_size=1, max_size=3), max_size=3),
)
def test_the_used_prompt_is_a_suffix_that_fits(
    kind: str, preamble: str, prompt: str, budget: int, until: list[str]
) -> None:
    try:
        result = build_input(texts(kind), preamble, prompt, budget, until)
    except ImpossibleRequest:
        return
    assert prompt.endswith(result.prompt)
    assert 0 < len(result.token_ids) <= budget
    assert len(result.token_ids) == result.num_fixed_tokens + len(result.prompt_ids)


def test_special_tokens_in_a_text_are_neither_used_nor_counted() -> None:
    backend = ScriptedBackend("words", marks=["<end>"])
    result = build_input(PlainTokenizer(backend), "Now<end>: ", "He left<end>.", 20, ())
    assert (result.preamble, result.prompt) == ("Now: ", "He left.")
    assert backend.detokenize(result.token_ids) == "Now: He left."


@pytest.mark.parametrize("marks", [(), ("<end>", "<s>")])
def test_many_words_are_encoded_as_each_alone_and_looked_through_at_once(
    marks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = ScriptedBackend("words", marks=marks)
    tokenizer = PlainTokenizer(backend)
    words = ["go on", " on", "<end>", "go<s> <end>on", *(f"word {n}" for n in range(90))]
    alone = [tokenizer.encode(word) for word in words]
    calls: list[int] = []
    detokenize = backend.detokenize
    monkeypatch.setattr(backend, "detokenize", lambda ids, **show: calls.append(1) or detokenize(ids, **show))
    assert tokenizer.encode_texts(words, "words_blacklist") == alone
    assert len(calls) <= 2 + 4 * len(marks) * len(words).bit_length()


def test_a_text_of_special_tokens_only_is_empty() -> None:
    with pytest.raises(ImpossibleRequest, match="Specify preamble and/or prompt"):
        build_input(PlainTokenizer(ScriptedBackend("words", marks=["<end>"])), "<end>", "<end><end>", 20, ())


def test_a_bos_token_counts_with_the_preamble_and_is_never_truncated() -> None:
    backend = ScriptedBackend("words", marks=["<s>"], begins="<s>")
    result = build_input(PlainTokenizer(backend), "", "One two three four", 3, ())
    assert backend.detokenize(result.token_ids) == "<s> three four"
    assert (result.num_fixed_tokens, len(result.prompt_ids), result.num_original_tokens) == (1, 2, 4)
