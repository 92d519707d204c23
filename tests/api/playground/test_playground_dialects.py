"""The page's tables agree with the server's: every field it sends is one that the dialect reads."""

import re
from pathlib import Path

import msgspec
import pytest

from api.llama_stack.bodies import ChatBody as LlamaStackBody
from api.llama_stack.bodies import Logprobs, SamplingParams, Strategy
from api.neodim.bodies import Body as NeodimBody
from api.openai.bodies import ChatBody, CompletionBody
from api.tgi.bodies import Parameters

FOLDER = Path(__file__).parents[3] / "api/playground"
FIELD = re.compile(r'^  (\w+): "(\S*)",$', re.MULTILINE)
PARAM = re.compile(r"^  (\w+): \{", re.MULTILINE)


def names(*shapes: type[msgspec.Struct]) -> set[str]:
    return {name for shape in shapes for name in shape.__struct_fields__}


READ = {
    "llama_stack": names(LlamaStackBody, SamplingParams)
    | {f"strategy.{name}" for name in names(Strategy)}
    | {f"logprobs.{name}" for name in names(Logprobs)},
    "openai": names(CompletionBody) & names(ChatBody),
    "tgi": names(Parameters),
    "neodim": names(NeodimBody),
}


def table(dialect: str) -> dict[str, str]:
    """The page's names of a dialect's parameters, and the dialect's own; "" where it has none."""
    source = (FOLDER / f"dialects/{dialect}.js").read_text()
    return dict(FIELD.findall(source.partition("const FIELDS = {")[2].partition("};")[0]))


def params() -> set[str]:
    sections = (path for path in FOLDER.glob("params/*.js") if path.stem != "kinds")
    return {name for path in sections for name in PARAM.findall(path.read_text())}


@pytest.mark.parametrize("dialect", READ)
def test_every_field_that_is_sent_is_read(dialect: str) -> None:
    sent = {field for field in table(dialect).values() if field}
    assert len(sent) >= 8 and sent - READ[dialect] == set()


@pytest.mark.parametrize("dialect", READ)
def test_every_parameter_that_a_dialect_has_is_explained(dialect: str) -> None:
    assert set(table(dialect)) - params() == set()


def test_every_parameter_is_one_of_some_dialect() -> None:
    assert params() == {name for dialect in READ for name in table(dialect)}
