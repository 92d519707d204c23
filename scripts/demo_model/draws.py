"""Chance: which fact a question is about. Each draw gives the slots a phrasing is filled with."""

from collections.abc import Callable, Mapping
from random import Random

from . import facts
from .phrasing import salad
from .topics import Slots


def capital(chance: Random) -> Slots:
    country, capital = chance.choice(tuple(facts.CAPITALS.items()))
    known_as = facts.ALIASES.get(country, ())
    called = chance.choice(known_as) if known_as and chance.random() < 0.5 else country
    return {"country": country, "called": called, "capital": capital}


def pair(table: Mapping[str, str], key: str, value: str) -> Callable[[Random], Slots]:
    rows = tuple(table.items())
    return lambda chance: dict(zip((key, value), chance.choice(rows), strict=True))


def creature(table: Mapping[str, str], value: str) -> Callable[[Random], Slots]:
    """As `pair`, of animals: `animal` carries its article, `bare` does not."""

    def draw(chance: Random) -> Slots:
        bare, fact = chance.choice(tuple(table.items()))
        return {"animal": f"{'an' if bare[0] in 'aeiou' else 'a'} {bare}", "bare": bare, value: fact}

    return draw


def opposite(chance: Random) -> Slots:
    pair = chance.choice(tuple(facts.OPPOSITES.items()))
    word, other = pair if chance.random() < 0.5 else pair[::-1]
    return {"word": word, "other": other}


def neighbour(cycle: tuple[str, ...], step: int) -> Callable[[Random], Slots]:
    def draw(chance: Random) -> Slots:
        index = chance.randrange(len(cycle))
        return {"this": cycle[index], "other": cycle[(index + step) % len(cycle)]}

    return draw


def spoken(number: int) -> str:
    """A number from 0 to 100 in words."""
    if number < len(facts.UNITS):
        return facts.UNITS[number]
    tens, unit = divmod(number, 10)
    return facts.TENS[tens] + (f"-{facts.UNITS[unit]}" if unit else "")


def _written(number: int, chance: Random) -> str:
    """In words now and then, as long as they are one word."""
    return spoken(number) if number <= 10 and chance.random() < 0.15 else str(number)


def addition(chance: Random) -> Slots:
    first, second = chance.randrange(10), chance.randrange(10)
    write = spoken if chance.random() < 0.2 else str
    return {"a": write(first), "b": write(second), "total": str(first + second)} | {
        "sum": f"{first} + {second} = {first + second}"
    }


def _listed(numbers: range) -> str:
    return ", ".join(map(str, numbers))


def span(chance: Random) -> Slots:
    first = chance.randint(0, 10)
    return _counted(first, first + chance.randint(1, 10), chance)


def from_one(chance: Random) -> Slots:
    last = chance.randint(2, 20) if chance.random() < 0.7 else chance.choice(range(30, 101, 10))
    return _counted(1, last, chance)


def _counted(first: int, last: int, chance: Random) -> Slots:
    return {
        "a": _written(first, chance),
        "b": _written(last, chance),
        "numbers": _listed(range(first, last + 1)),
    }


def down(chance: Random) -> Slots:
    first = chance.randint(2, 20)
    return {"a": _written(first, chance), "numbers": _listed(range(first, 0, -1))}


def word(chance: Random) -> Slots:
    word = chance.choice(facts.WORDS_TO_SPELL)
    return {"word": word, "letters": "-".join(word)}


def name(chance: Random) -> Slots:
    return {"name": chance.choice(facts.FIRST_NAMES)}


def city(chance: Random) -> Slots:
    known = facts.CITIES if chance.random() < 0.5 else tuple(facts.CAPITALS.values())
    return {"city": chance.choice(known)}


def text(chance: Random) -> Slots:
    """Words to copy, known and unknown."""
    return {"text": " ".join(_copied(chance) for _ in range(chance.randint(1, 4)))}


def _copied(chance: Random) -> str:
    match chance.randrange(6):
        case 0:
            return str(chance.randrange(100))
        case 1 | 2:
            return chance.choice(facts.CITIES)
    return salad(1, chance)


def nothing(_: Random) -> Slots:
    return {}


def anything(chance: Random) -> Slots:
    """What a question that has no answer here may be about."""
    return capital(chance) | word(chance) | {"a": str(chance.randrange(10)), "b": str(chance.randrange(10))}
