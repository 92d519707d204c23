"""Conversations with tools: definitions of many shapes, the one right call, the sentence after the result.

Names and keys vary so that the model copies them from the definition instead of learning them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from . import facts
from .phrasing import expand, retype, salad, unseen, untidy
from .skills import NOUNS, SKILLS, Skill

Message = dict[str, Any]
Tool = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """A question that a tool answers. Tools of one `subject` answer the same questions."""

    question: str
    name: str
    arguments: dict[str, str | int]
    tool: Tool
    report: str
    subject: str


def task(chance: Random, skill: Skill | None = None, *, held_out: bool = False) -> Task:
    skill = skill or chance.choices(SKILLS, (12, 3, 1, 1, 1))[0]
    noun = chance.choice(NOUNS)
    values = [_value(skill.kind, chance) for _ in skill.keys]
    keys = [chance.choice(names) for names in skill.keys]
    spoken = noun.replace("_", " ")
    asked = expand(chance.choice(skill.held_out if held_out else skill.asks), chance).format(
        *values, noun=spoken
    )
    asked = asked[:1].upper() + asked[1:]
    keep = (spoken, *map(str, values))
    question = retype(unseen(asked, chance) if held_out else untidy(asked, keep, chance), chance)
    name = chance.choice(skill.names).format(noun=noun)
    about = chance.choice(skill.about).format("a city", noun=spoken)
    kind = "integer" if skill.kind == "number" else "string"
    arguments = {key: _as_asked(value, question) for key, value in zip(keys, values, strict=True)}
    report = skill.report.format(*arguments.values(), noun=spoken, result="{result}")
    tool = define(name, about, keys, kind, chance)
    return Task(question, name, arguments, tool, report, skill.names[0].format(noun=noun))


def define(name: str, about: str, keys: list[str], kind: str, chance: Random) -> Tool:
    """A tool definition, in one of the shapes clients send."""
    properties: dict[str, Any] = {key: _schema(key, kind, chance) for key in keys}
    if chance.random() < 0.2:
        properties["unit"] = {"type": "string", "enum": ["celsius", "fahrenheit"]}
    parameters: dict[str, Any] = {"type": "object", "properties": properties, "required": keys}
    if "unit" not in properties and chance.random() < 0.2:
        del parameters["required"]
    if chance.random() < 0.1:
        parameters["additionalProperties"] = False
    if chance.random() < 0.15:
        parameters = dict(sorted(parameters.items()))
    function = {"name": name, "description": about, "parameters": parameters}
    if chance.random() < 0.15:
        del function["description"]
    if chance.random() < 0.1:
        function = dict(sorted(function.items()))
    return {"type": "function", "function": function}


def called(wanted: Task) -> Message:
    function = {"name": wanted.name, "arguments": wanted.arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}


def call_text(wanted: Task) -> str:
    return json.dumps({"name": wanted.name, "parameters": wanted.arguments}, ensure_ascii=False)


def _schema(key: str, kind: str, chance: Random) -> Mapping[str, str]:
    schema = {"type": chance.choice((kind, "number")) if kind == "integer" else kind}
    if chance.random() < 0.6:
        schema["description"] = chance.choice(
            (f"The {key}", f"{key} to use", salad(3, chance), f"The name of the {key}")
        )
    return dict(reversed(schema.items())) if chance.random() < 0.2 else schema


def _value(kind: str, chance: Random) -> str | int:
    if kind == "number":
        return chance.randrange(20)
    if kind == "city" or chance.random() < 0.6:
        return chance.choice((*facts.CITIES, *facts.CAPITALS.values()))
    return salad(1, chance)


def _as_asked(value: Any, question: str) -> Any:
    """Unknown names are copied as they stand in the question; known ones are written as they should be."""
    if isinstance(value, int) or value in (*facts.CITIES, *facts.CAPITALS.values()):
        return value
    return value if value in question else value.lower()
