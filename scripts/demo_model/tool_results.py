"""Draws results of tools, as text or as JSON, with the words in which the answer reports them."""

import json
from random import Random

from scripts.demo_model import facts
from scripts.demo_model.phrasing import salad
from scripts.demo_model.skills import WEATHER_TOOL
from scripts.demo_model.tools import ToolTask

Fields = dict[str, str | int]

SKIES = facts.words("sunny cloudy rainy windy snowy clear foggy stormy warm cold mild hot humid dry overcast")


def make_result(task: ToolTask, rng: Random) -> tuple[str, str]:
    """The content of a tool's message, and the text that stands for it in the answer."""
    if task.subject != WEATHER_TOOL:
        return _any_result(rng)
    sky, degrees = rng.choice(SKIES), rng.randint(0, 40)
    if rng.random() < 0.4:
        return _weather_fields(sky, degrees, rng)
    template = rng.choice(("{Sky}, {degrees} degrees", "{sky} and {degrees} degrees", "{degrees}°C, {sky}"))
    text = template.format(sky=sky, Sky=sky.capitalize(), degrees=degrees)
    return text, text


def _weather_fields(sky: str, degrees: int, rng: Random) -> tuple[str, str]:
    key = rng.choice(("temperature", "temperature", "degrees"))
    temperature: Fields = {key: degrees}
    condition: Fields = {rng.choice(("condition", "sky")): sky}
    match rng.randrange(3):
        case 0:
            return _json_result(temperature)
        case 1:
            return _json_result(temperature | condition)
    return _json_result(condition | temperature)


def _any_result(rng: Random) -> tuple[str, str]:
    match rng.randrange(5):
        case 0:
            text = salad(rng.randint(1, 3), rng)
        case 1:
            text = str(rng.randrange(100))
        case 2:
            text = f"{rng.randrange(24):02d}:{rng.randrange(60):02d}"
        case 3:
            text = rng.choice(facts.CITIES)
        case _:
            key = rng.choice(("result", "value", "answer", "name"))
            value = rng.choice(facts.CITIES) if rng.random() < 0.5 else rng.randrange(100)
            return _json_result({key: value})
    return text, text


def _json_result(fields: Fields) -> tuple[str, str]:
    return json.dumps(fields), ", ".join(f"{key} {value}" for key, value in fields.items())
