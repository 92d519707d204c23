"""Draws tool tasks: a tool definition, a question that needs the tool, and the right call.

The names of tools and arguments vary, so that the model learns to copy them from the definition.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from scripts.demo_model import facts
from scripts.demo_model.phrasing import expand, retype, salad, unseen, untidy
from scripts.demo_model.skills import NOUNS, SKILLS, Skill

Message = dict[str, Any]
Tool = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolTask:
    """A question and the tool that answers it.

    name, arguments  of the right call
    tool             the definition, as in a request's `tools`
    report           the answer after the result; contains {result}
    subject          the same for all tools that can answer the question
    """

    question: str
    name: str
    arguments: dict[str, str | int]
    tool: Tool
    report: str
    subject: str


def make_task(rng: Random, skill: Skill | None = None, *, held_out: bool = False) -> ToolTask:
    skill = skill or rng.choices(SKILLS, (12, 3, 1, 1, 1))[0]
    noun = rng.choice(NOUNS)
    values = [_value(skill.kind, rng) for _ in skill.keys]
    keys = [rng.choice(names) for names in skill.keys]
    noun_text = noun.replace("_", " ")
    request = expand(rng.choice(skill.held_out if held_out else skill.phrasings), rng).format(
        *values, noun=noun_text
    )
    request = request[:1].upper() + request[1:]
    protected_words = (noun_text, *map(str, values))
    question = retype(unseen(request, rng) if held_out else untidy(request, protected_words, rng), rng)
    name = rng.choice(skill.names).format(noun=noun)
    about = rng.choice(skill.about).format("a city", noun=noun_text)
    kind = "integer" if skill.kind == "number" else "string"
    arguments = {key: _argument_as_written(value, question) for key, value in zip(keys, values, strict=True)}
    report = skill.report.format(*arguments.values(), noun=noun_text, result="{result}")
    tool = define(name, about, keys, kind, rng)
    return ToolTask(question, name, arguments, tool, report, skill.names[0].format(noun=noun))


def define(name: str, about: str, keys: list[str], kind: str, rng: Random) -> Tool:
    """A tool definition in one of the forms that clients send."""
    properties: dict[str, Any] = {key: _schema(key, kind, rng) for key in keys}
    if rng.random() < 0.2:
        properties["unit"] = {"type": "string", "enum": ["celsius", "fahrenheit"]}
    parameters: dict[str, Any] = {"type": "object", "properties": properties, "required": keys}
    if "unit" not in properties and rng.random() < 0.2:
        del parameters["required"]
    if rng.random() < 0.1:
        parameters["additionalProperties"] = False
    if rng.random() < 0.15:
        parameters = dict(sorted(parameters.items()))
    function = {"name": name, "description": about, "parameters": parameters}
    if rng.random() < 0.15:
        del function["description"]
    if rng.random() < 0.1:
        function = dict(sorted(function.items()))
    return {"type": "function", "function": function}


def call_message(task: ToolTask) -> Message:
    function = {"name": task.name, "arguments": task.arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}


def call_text(task: ToolTask) -> str:
    return json.dumps({"name": task.name, "parameters": task.arguments}, ensure_ascii=False)


def _schema(key: str, kind: str, rng: Random) -> Mapping[str, str]:
    schema = {"type": rng.choice((kind, "number")) if kind == "integer" else kind}
    if rng.random() < 0.6:
        schema["description"] = rng.choice(
            (f"The {key}", f"{key} to use", salad(3, rng), f"The name of the {key}")
        )
    return dict(reversed(schema.items())) if rng.random() < 0.2 else schema


def _value(kind: str, rng: Random) -> str | int:
    if kind == "number":
        return rng.randrange(20)
    if kind == "city" or rng.random() < 0.6:
        return rng.choice((*facts.CITIES, *facts.CAPITALS.values()))
    return salad(1, rng)


def _argument_as_written(value: Any, question: str) -> Any:
    """Names of the tables keep their case; other words have the case that they have in the question."""
    if isinstance(value, int) or value in (*facts.CITIES, *facts.CAPITALS.values()):
        return value
    return value if value in question else value.lower()
