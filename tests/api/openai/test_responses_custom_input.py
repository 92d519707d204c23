"""The input of a custom tool, decoded piece by piece out of the arguments of its function."""

import json
import random

import pytest

from api.openai.responses.custom_input import CustomInput

TEXTS = ["", "plain", 'a "quoted"\n\\path\t', "ünï — 😀😀", "\u2028 </tool_call> {}", "\x00\x1f", "😀" * 50]


def decode(deltas: list[str]) -> list[str]:
    custom_input = CustomInput()
    texts = [custom_input.feed(delta) for delta in deltas]
    texts.append(custom_input.close())
    assert "".join(texts) == custom_input.text
    return texts


def split_randomly(text: str, rng: random.Random) -> list[str]:
    deltas = []
    while text:
        size = rng.randint(1, 5)
        deltas.append(text[:size])
        text = text[size:]
    return deltas


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_the_deltas_join_to_the_input_however_the_arguments_are_split(
    text: str, ensure_ascii: bool, seed: int
) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ensure_ascii)
    assert "".join(decode(split_randomly(arguments, random.Random(seed)))) == text


def test_each_character_is_passed_on_as_soon_as_it_is_complete() -> None:
    deltas = ['{"inp', 'ut": "a', "b\\", "nc\\ud83d", "\\ude00", '"', "}"]
    assert decode(deltas) == ["", "a", "b", "\nc", "😀", "", "", ""]


def test_a_surrogate_escape_is_held_back_until_its_pair_is_complete() -> None:
    assert decode(['{"input": "\\ud83d', "\\u", "de00", '"}']) == ["", "", "😀", "", ""]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"patch": "x"}', '{"patch": "x"}'),
        ('{"input": 5}', '{"input": 5}'),
        ("{}", "{}"),
        ("[1]", "[1]"),
        ('{"reason": "why", "input": "x"}', "x"),
        ('{"input": "x", "reason": "why"}', "x"),
        ('\n{ "input" : "x" }', "x"),
        ('{"input": "x', "x"),
        ('{"inp', ""),
        ('{"input": "bad \\q escape"}', "bad "),
        ('{"input": "lone \\ud83d end"}', "lone \ud83d end"),
        ('{"input": "raw\nnewline"}', "raw\nnewline"),
        ("[" * 100_000, ""),
    ],
)
def test_arguments_in_another_form_lose_as_little_as_possible(arguments: str, text: str) -> None:
    assert "".join(decode([arguments])) == text
    assert "".join(decode(split_randomly(arguments, random.Random(1)))) == text
