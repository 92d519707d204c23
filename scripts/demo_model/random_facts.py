"""Draws random facts. Each function returns the slots of a phrasing: texts by slot name."""

from collections.abc import Callable, Mapping
from random import Random

from scripts.demo_model import facts
from scripts.demo_model.phrasing import salad
from scripts.demo_model.topics import Slots


def capital(rng: Random) -> Slots:
    country, capital = rng.choice(tuple(facts.CAPITALS.items()))
    known_as = facts.ALIASES.get(country, ())
    called = rng.choice(known_as) if known_as and rng.random() < 0.5 else country
    return {"country": country, "called": called, "capital": capital}


def pair(table: Mapping[str, str], key: str, value: str) -> Callable[[Random], Slots]:
    rows = tuple(table.items())
    return lambda rng: dict(zip((key, value), rng.choice(rows), strict=True))


def creature(table: Mapping[str, str], value: str) -> Callable[[Random], Slots]:
    """Like `pair`, for a table of animals: slot `animal` has an article, slot `bare` does not."""

    def draw(rng: Random) -> Slots:
        bare, fact = rng.choice(tuple(table.items()))
        return {"animal": f"{'an' if bare[0] in 'aeiou' else 'a'} {bare}", "bare": bare, value: fact}

    return draw


def opposite(rng: Random) -> Slots:
    pair = rng.choice(tuple(facts.OPPOSITES.items()))
    word, other = pair if rng.random() < 0.5 else pair[::-1]
    return {"word": word, "other": other}


def neighbour(cycle: tuple[str, ...], step: int) -> Callable[[Random], Slots]:
    def draw(rng: Random) -> Slots:
        index = rng.randrange(len(cycle))
        return {"this": cycle[index], "other": cycle[(index + step) % len(cycle)]}

    return draw


def spoken(number: int) -> str:
    """A number from 0 to 100 in words."""
    if number < len(facts.UNITS):
        return facts.UNITS[number]
    tens, unit = divmod(number, 10)
    return facts.TENS[tens] + (f"-{facts.UNITS[unit]}" if unit else "")


def _written(number: int, rng: Random) -> str:
    """The number in digits; up to 10 sometimes in words."""
    return spoken(number) if number <= 10 and rng.random() < 0.15 else str(number)


def addition(rng: Random) -> Slots:
    first, second = rng.randrange(10), rng.randrange(10)
    write = spoken if rng.random() < 0.2 else str
    return {"a": write(first), "b": write(second), "total": str(first + second)} | {
        "sum": f"{first} + {second} = {first + second}"
    }


def _listed(numbers: range) -> str:
    return ", ".join(map(str, numbers))


def span(rng: Random) -> Slots:
    first = rng.randint(0, 10)
    return _counted(first, first + rng.randint(1, 10), rng)


def from_one(rng: Random) -> Slots:
    last = rng.randint(2, 20) if rng.random() < 0.7 else rng.choice(range(30, 101, 10))
    return _counted(1, last, rng)


def _counted(first: int, last: int, rng: Random) -> Slots:
    return {
        "a": _written(first, rng),
        "b": _written(last, rng),
        "numbers": _listed(range(first, last + 1)),
    }


def down(rng: Random) -> Slots:
    first = rng.randint(2, 20)
    return {"a": _written(first, rng), "numbers": _listed(range(first, 0, -1))}


def word(rng: Random) -> Slots:
    word = rng.choice(facts.WORDS_TO_SPELL)
    return {"word": word, "letters": "-".join(word)}


def name(rng: Random) -> Slots:
    return {"name": rng.choice(facts.FIRST_NAMES)}


def city(rng: Random) -> Slots:
    known = facts.CITIES if rng.random() < 0.5 else tuple(facts.CAPITALS.values())
    return {"city": rng.choice(known)}


def text(rng: Random) -> Slots:
    """One to four words to copy: numbers, cities or random words."""
    return {"text": " ".join(_copied(rng) for _ in range(rng.randint(1, 4)))}


def _copied(rng: Random) -> str:
    match rng.randrange(6):
        case 0:
            return str(rng.randrange(100))
        case 1 | 2:
            return rng.choice(facts.CITIES)
    return salad(1, rng)


def nothing(_: Random) -> Slots:
    return {}


def anything(rng: Random) -> Slots:
    """Slots for questions that the model cannot answer."""
    return capital(rng) | word(rng) | {"a": str(rng.randrange(10)), "b": str(rng.randrange(10))}
