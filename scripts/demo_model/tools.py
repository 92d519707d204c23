"""Conversations with tools: definitions of many shapes, the one right call, the sentence after the result.

Names and keys vary so that the model copies them from the definition instead of learning them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from . import facts
from .phrasing import expand, salad, unseen, untidy

Message = dict[str, Any]
Tool = dict[str, Any]

WEATHER_TOOL, TIME_TOOL = "get_weather", "get_time"
CITY_KEYS = ("city", "location", "place", "town", "city_name", "where")


@dataclass(frozen=True, slots=True)
class Skill:
    """What one tool is for.

    names     function names it goes by; `{noun}` is filled
    keys      alternatives for its arguments' names, in order
    asks      questions that call for it; slots `{noun}` and `{0}`, `{1}` … are the arguments
    report    how its result is told
    """

    names: tuple[str, ...]
    about: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    asks: tuple[str, ...]
    held_out: tuple[str, ...]
    report: str
    kind: str


SKILLS = (
    Skill(
        ("get_weather", "weather", "get_current_weather", "weather_lookup", "getWeather", "fetch_weather"),
        (
            "Get the weather",
            "Get the current weather in a city",
            "Current weather for a place",
            "Weather of {0}.",
        ),
        (CITY_KEYS,),
        (
            "what is the weather [in|like in] {0}?",
            "what's the weather [in|like in] {0}?",
            "what's the weather [in|like in] {0} [today|now]?",
            "[how|how's] [is |]the weather in {0}?",
            "weather in {0}?",
            "is it [raining|sunny|cold|warm|snowing] in {0}?",
            "tell me the weather in {0}.",
            "how [warm|cold] is it in {0}?",
            "what is the temperature in {0}?",
            "will it rain in {0}[?| today?]",
            "do i need an umbrella in {0}?",
            "weather forecast for {0}",
            "get the weather [in|for] {0}.",
            "[use the tool and |]look up the weather in {0}.",
        ),
        (
            "what is the weather today in {0}?",
            "do you know the weather in {0}?",
            "could you tell me the weather in {0}?",
            "please check the weather in {0}.",
            "i travel to {0}, how is the weather in {0}?",
        ),
        "The weather in {0} is: {result}.",
        "city",
    ),
    Skill(
        ("get_time", "current_time", "get_current_time", "time_in", "getTime", "clock"),
        ("Get the time", "Get the current time in a city", "Current local time", "Time of day in a place."),
        (CITY_KEYS,),
        (
            "what time is it in {0}?",
            "what is the time in {0}?",
            "tell me the time in {0}.",
            "what's the [current |local |]time in {0}?",
            "current time in {0}?",
            "which time is it [now |]in {0}?",
            "time in {0}",
            "get the time in {0}.",
        ),
        (
            "what is the current time in {0}?",
            "could you tell me the time in {0}?",
            "do you know the time in {0}?",
        ),
        "The time in {0} is: {result}.",
        "city",
    ),
    Skill(
        ("search", "web_search", "brave_search", "search_web", "google", "find", "lookup"),
        ("Search the web", "Search the internet for a query", "Find information", "Web search."),
        (("query", "q", "text", "search_term", "input"),),
        (
            "search for {0}.",
            "search the [web|internet] for {0}.",
            "[can|could] you search for {0}?",
            "look up {0}.",
            "find information about {0}.",
            "do a web search for {0}.",
            "use the search tool to find {0}.",
            "google {0}.",
        ),
        ("please search for {0}.", "i want you to search the web for {0}.", "can you look up {0}?"),
        "I found: {result}.",
        "name",
    ),
    Skill(
        ("add", "calculator", "sum", "add_numbers", "calculate", "plus"),
        ("Add two numbers", "Calculate the sum of two numbers", "Adds numbers.", "Calculator for sums"),
        (("a", "x", "first", "left"), ("b", "y", "second", "right")),
        (
            "what is {0} [+|plus] {1}?",
            "add {0} and {1}.",
            "[calculate|compute] {0} [+|plus] {1}.",
            "how much is {0} [+|plus] {1}?",
            "what is the sum of {0} and {1}?",
            "use the tool to add {0} and {1}.",
            "{0} + {1}",
        ),
        ("could you add {0} and {1}?", "please calculate {0} + {1}.", "what does {0} plus {1} equal?"),
        "The result is: {result}.",
        "number",
    ),
    Skill(
        ("get_{noun}", "{noun}", "lookup_{noun}", "find_{noun}", "{noun}_lookup", "fetch_{noun}"),
        ("Get the {noun}", "Returns the {noun} of a thing", "Look up the {noun}", "{noun}"),
        (("name", "item", "thing", "object", "of", "subject", "id", "title", "city", "country", "person"),),
        (
            "what is the {noun} of {0}?",
            "what's the {noun} of {0}?",
            "tell me the {noun} of {0}.",
            "get the {noun} of {0}.",
            "give me the {noun} [of|for] {0}.",
            "look up the {noun} of {0}.",
            "{noun} of {0}?",
            "i need the {noun} [of|for] {0}.",
            "do you know the {noun} of {0}?",
        ),
        ("could you find the {noun} of {0}?", "please tell me the {noun} of {0}.", "which {noun} has {0}?"),
        "The {noun} of {0} is: {result}.",
        "name",
    ),
)

NOUNS = facts.words(
    """
    population price height distance status news area depth length age address email phone owner
    stock score rating level speed weight size balance order ticket schedule route currency language
    mayor history menu salary budget boiling_point melting_point
    """
)

WEATHER = facts.words(
    "sunny cloudy rainy windy snowy clear foggy stormy warm cold mild hot humid dry overcast"
)


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
    skill = skill or chance.choices(SKILLS, (4, 2, 2, 1, 3))[0]
    noun = chance.choice(NOUNS)
    values = [_value(skill.kind, chance) for _ in skill.keys]
    keys = [chance.choice(names) for names in skill.keys]
    spoken = noun.replace("_", " ")
    asked = expand(chance.choice(skill.held_out if held_out else skill.asks), chance).format(
        *values, noun=spoken
    )
    asked = asked[:1].upper() + asked[1:]
    keep = (spoken, *map(str, values))
    question = unseen(asked, chance) if held_out else untidy(asked, keep, chance)
    name = chance.choice(skill.names).format(noun=noun)
    about = chance.choice(skill.about).format("a city", noun=spoken)
    kind = "integer" if skill.kind == "number" else "string"
    arguments = _as_asked(dict(zip(keys, values, strict=True)), question)
    report = skill.report.format(*arguments.values(), noun=spoken, result="{result}")
    tool = define(name, about, keys, kind, chance)
    return Task(question, name, arguments, tool, report, skill.names[0].format(noun=noun))


def define(name: str, about: str, keys: list[str], kind: str, chance: Random) -> Tool:
    """A tool definition, in one of the shapes clients send."""
    properties = {key: _schema(key, kind, chance) for key in keys}
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


def result(wanted: Task, chance: Random) -> tuple[str, str]:
    """What a tool might return, and how the answer words it."""
    if wanted.subject != WEATHER_TOOL or chance.random() < 0.2:
        return _any_result(chance)
    sky, degrees = chance.choice(WEATHER), chance.randint(-9, 40)
    match chance.randrange(5):
        case 0:
            plain = f"{sky.capitalize()}, {degrees} degrees"
        case 1:
            plain = f"{sky} and {degrees} degrees"
        case 2:
            plain = f"{degrees}°C, {sky}"
        case _:
            fields = [("temperature", degrees), (chance.choice(("condition", "sky", "weather")), sky)]
            if chance.random() < 0.5:
                fields[0] = (chance.choice(("temp", "degrees", "temperature_c", "celsius")), degrees)
            return _json_result(
                dict(fields[: chance.randint(1, 2)] if chance.random() < 0.7 else fields[::-1])
            )
    return plain, plain


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
        return chance.randrange(100)
    if chance.random() < 0.55:
        return invented(chance)
    if kind == "city" or chance.random() < 0.7:
        return chance.choice((*facts.CITIES, *facts.CAPITALS.values()))
    return salad(chance.randint(1, 3), chance)


def invented(chance: Random) -> str:
    """A name nobody has heard: it can only be copied."""
    syllables = [
        chance.choice("bcdfghjklmnprstvwz") + chance.choice("aeiou") for _ in range(chance.randint(1, 3))
    ]
    return ("".join(syllables) + chance.choice(("", "n", "r", "s", "l", "th", "m", "x", "rg"))).capitalize()


def _as_asked(arguments: dict[str, Any], question: str) -> dict[str, Any]:
    """Unknown names are copied as they stand in the question; known ones are written as they should be."""
    known = (*facts.CITIES, *facts.CAPITALS.values())
    return {
        key: value
        if isinstance(value, int) or value in question or value in known
        else value.lower()
        if value.lower() in question
        else value.upper()
        for key, value in arguments.items()
    }


def _any_result(chance: Random) -> tuple[str, str]:
    match chance.randrange(5):
        case 0:
            text = salad(chance.randint(1, 6), chance)
        case 1:
            text = str(chance.randrange(1000))
        case 2:
            text = f"{chance.randrange(24):02d}:{chance.randrange(60):02d}"
        case 3:
            text = f"{invented(chance)} {salad(chance.randint(1, 4), chance)}"
        case _:
            return _json_result({chance.choice(("result", "value", "answer", "name")): _field(chance)})
    return text, text


def _field(chance: Random) -> str | int:
    return invented(chance) if chance.random() < 0.5 else chance.randrange(1000)


def _json_result(fields: Mapping[str, str | int]) -> tuple[str, str]:
    return json.dumps(fields), ", ".join(f"{key} {value}" for key, value in fields.items())
