"""The page's tables agree with the server: a dialect reads every field that the page sends to it."""

import re
from pathlib import Path

import msgspec
import pytest

from api.llama_stack.protocol.inference import LlamaStackChatRequest as LlamaStackBody
from api.llama_stack.protocol.inference import LogprobsOptions, SamplingParams, SamplingStrategy
from api.neodim.protocol import NeodimRequest as NeodimBody
from api.openai.protocol.chat import ChatCompletionRequest
from api.openai.protocol.completion import CompletionRequest
from api.tgi.protocol import GenerateParameters

FOLDER = Path(__file__).parents[3] / "api/playground"
FIELD = re.compile(r'^  (\w+): "(\S*)",$', re.MULTILINE)
PARAM = re.compile(r"^  (\w+): \{", re.MULTILINE)


def names(*shapes: type[msgspec.Struct]) -> set[str]:
    return {name for shape in shapes for name in shape.__struct_fields__}


READ = {
    "llama_stack": names(LlamaStackBody, SamplingParams)
    | {f"strategy.{name}" for name in names(SamplingStrategy)}
    | {f"logprobs.{name}" for name in names(LogprobsOptions)},
    "openai": names(CompletionRequest) & names(ChatCompletionRequest),
    "tgi": names(GenerateParameters),
    "neodim": names(NeodimBody),
}


def table(dialect: str) -> dict[str, str]:
    """The page's parameter names, each with the dialect's field; an empty string where the dialect has
    none.
    """
    source = (FOLDER / f"dialects/{dialect}.js").read_text()
    return dict(FIELD.findall(source.partition("const FIELDS = {")[2].partition("};")[0]))


def params() -> set[str]:
    sections = (path for path in FOLDER.glob("params/*.js") if path.stem != "presets")
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
