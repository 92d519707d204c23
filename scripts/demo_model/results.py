"""What tools return, as text or as JSON, and the words the answer reports it in."""

import json
from random import Random

from . import facts
from .phrasing import salad
from .skills import WEATHER_TOOL
from .tools import Task

Fields = dict[str, str | int]

SKIES = facts.words("sunny cloudy rainy windy snowy clear foggy stormy warm cold mild hot humid dry overcast")


def result(wanted: Task, chance: Random) -> tuple[str, str]:
    """What a tool might return, and how the answer words it."""
    if wanted.subject != WEATHER_TOOL:
        return _any_result(chance)
    sky, degrees = chance.choice(SKIES), chance.randint(0, 40)
    if chance.random() < 0.4:
        return _weather_fields(sky, degrees, chance)
    form = chance.choice(("{Sky}, {degrees} degrees", "{sky} and {degrees} degrees", "{degrees}°C, {sky}"))
    text = form.format(sky=sky, Sky=sky.capitalize(), degrees=degrees)
    return text, text


def _weather_fields(sky: str, degrees: int, chance: Random) -> tuple[str, str]:
    key = chance.choice(("temperature", "temperature", "degrees"))
    temperature: Fields = {key: degrees}
    condition: Fields = {chance.choice(("condition", "sky")): sky}
    match chance.randrange(3):
        case 0:
            return _json_result(temperature)
        case 1:
            return _json_result(temperature | condition)
    return _json_result(condition | temperature)


def _any_result(chance: Random) -> tuple[str, str]:
    match chance.randrange(5):
        case 0:
            text = salad(chance.randint(1, 3), chance)
        case 1:
            text = str(chance.randrange(100))
        case 2:
            text = f"{chance.randrange(24):02d}:{chance.randrange(60):02d}"
        case 3:
            text = chance.choice(facts.CITIES)
        case _:
            return _json_result({chance.choice(("result", "value", "answer", "name")): _field(chance)})
    return text, text


def _field(chance: Random) -> str | int:
    return chance.choice(facts.CITIES) if chance.random() < 0.5 else chance.randrange(100)


def _json_result(fields: Fields) -> tuple[str, str]:
    return json.dumps(fields), ", ".join(f"{key} {value}" for key, value in fields.items())
