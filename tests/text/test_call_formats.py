"""Each format reads its own calls; a chat template says which one a model has."""

import pytest

from inference.text.calls import CALL_FORMATS, format_of
from inference.text.toolcalls import ToolCalls
from tests.text.listening import JSON, TOOLS, heard, listen

FUNCTION = '<function=weather>{"city": "Paris"}</function>'
MINE = {
    "llama": [
        JSON,
        f"<|python_tag|>{JSON}",
        f"{JSON}; {JSON}",
        FUNCTION,
    ],
    "hermes": [f"<tool_call>\n{JSON}\n</tool_call>", "<function=now></function>"],
    "mistral": [f"[TOOL_CALLS] [{JSON}]", '[TOOL_CALLS]weather[ARGS]{"city": "Paris"}'],
    "python": ['[weather(city="Paris"), now()]'],
}


@pytest.mark.parametrize("form", CALL_FORMATS)
def test_a_format_reads_its_own_calls_and_no_others(form: str) -> None:
    assert all(listen(answer, form=form) == listen(answer) for answer in MINE[form])
    others = {answer for other in MINE if other != form for answer in MINE[other]} - set(MINE[form])
    others -= {FUNCTION, "<function=now></function>"}  # two formats have them
    for answer in others:
        assert listen(answer, form=form) == (answer, [])


@pytest.mark.parametrize("form", ["hermes", "mistral"])
def test_behind_a_special_token_no_tag_is_needed(form: str) -> None:
    calls = ToolCalls(TOOLS, form=form)
    answer = {"hermes": f"\n{JSON}\n", "mistral": f"[{JSON}]"}[form]
    told = [*calls.mark(), *calls.feed(answer), *calls.mark(), *calls.flush()]
    assert [call[0] for call in heard(told)[1]] == ["weather"]


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ("{{ '<tool_call>' }}", "hermes"),
        ("[TOOL_CALLS]", "mistral"),
        ("<|python_tag|> {{ tools }}", "llama"),
        ("<|python_start|>", "python"),
        ("{{ messages }}", "llama"),
    ],
)
def test_a_template_tells_its_models_format(template: str, form: str) -> None:
    assert format_of(template) == form
