"""What tools return, as text or as JSON, and the words the answer reports it in."""

import json
from random import Random

from . import facts
from .draws import invented
from .phrasing import salad
from .skills import WEATHER_TOOL
from .tools import Task

Fields = dict[str, str | int]

SKIES = facts.words("sunny cloudy rainy windy snowy clear foggy stormy warm cold mild hot humid dry overcast")


def result(wanted: Task, chance: Random) -> tuple[str, str]:
    """What a tool might return, and how the answer words it."""
    if wanted.subject != WEATHER_TOOL or chance.random() < 0.2:
        return _any_result(chance)
    sky, degrees = chance.choice(SKIES), chance.randint(-9, 40)
    if chance.random() < 0.4:
        return _weather_fields(sky, degrees, chance)
    form = chance.choice(("{Sky}, {degrees} degrees", "{sky} and {degrees} degrees", "{degrees}°C, {sky}"))
    text = form.format(sky=sky, Sky=sky.capitalize(), degrees=degrees)
    return text, text


def _weather_fields(sky: str, degrees: int, chance: Random) -> tuple[str, str]:
    key = chance.choice(("temperature", "temperature", "temp", "degrees", "temperature_c", "celsius"))
    temperature: Fields = {key: degrees}
    condition: Fields = {chance.choice(("condition", "sky", "weather")): sky}
    match chance.randrange(3):
        case 0:
            return _json_result(temperature)
        case 1:
            return _json_result(temperature | condition)
    return _json_result(condition | temperature)


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


def _json_result(fields: Fields) -> tuple[str, str]:
    return json.dumps(fields), ", ".join(f"{key} {value}" for key, value in fields.items())
