"""A topic: how it is asked in training, how it is asked in the exam, and the one right answer.

Every question has exactly one answer, so an exam needs no judge. The topics themselves are in `knowledge`
and `talk`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from .phrasing import expand, lowered, retype, unseen, untidy

Slots = dict[str, str]


@dataclass(frozen=True, slots=True)
class Topic:
    """One kind of question.

    draw      the facts of one question, by slot name
    answer    the whole answer; may itself be a slot
    short     the bare fact
    asks      phrasings used in training
    held_out  phrasings used only in the exam
    follows   short questions after one of the same topic: "And of Italy?"
    keeps     words that no noise may touch
    noisy     may be asked untidily; if not, question and answer stand as written
    told      the fact as plain text, for completion without a chat
    """

    name: str
    draw: Callable[[Random], Slots]
    answer: str
    asks: tuple[str, ...]
    held_out: tuple[str, ...]
    short: str = ""
    follows: tuple[str, ...] = ()
    held_out_follows: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    noisy: bool = True


@dataclass(frozen=True, slots=True)
class Question:
    topic: str
    text: str
    answer: str
    short: str


def ask(topic: Topic, chance: Random) -> Question:
    """A question as training shows it, untidy at times."""
    slots = topic.draw(chance)
    text = _fill(chance.choice(topic.asks), slots, chance)
    if topic.noisy:
        text = untidy(text, (*topic.keeps, *slots.values()), chance)
    return _question(topic, _retyped(topic, text, chance), slots)


def examine(topic: Topic, chance: Random) -> Question:
    """A question phrased as training never phrases it."""
    slots = topic.draw(chance)
    text = _fill(chance.choice(topic.held_out), slots, chance)
    if topic.noisy:
        text = unseen(text, chance)
    return _question(topic, _retyped(topic, text, chance), slots)


def follow(topic: Topic, chance: Random, *, held_out: bool = False) -> Question:
    """A short question that only makes sense after another of the same topic."""
    slots = topic.draw(chance)
    text = _fill(chance.choice(topic.held_out_follows if held_out else topic.follows), slots, chance)
    return _question(topic, lowered(text) if chance.random() < 0.2 else text, slots)


def tell(topic: Topic, chance: Random) -> str:
    """The fact as a plain sentence."""
    return _fill(chance.choice(topic.told or (topic.answer,)), topic.draw(chance), chance)


def _fill(template: str, slots: Mapping[str, str], chance: Random) -> str:
    text = expand(template, chance).format(**slots)
    return text[:1].upper() + text[1:]


def _retyped(topic: Topic, text: str, chance: Random) -> str:
    if topic.noisy:
        return retype(text, chance)
    return lowered(text) if chance.random() < 0.3 else text


def _question(topic: Topic, text: str, slots: Mapping[str, str]) -> Question:
    answer = topic.answer.format(**slots)
    if topic.noisy:
        answer = answer[:1].upper() + answer[1:]
    return Question(topic.name, text, answer, topic.short.format(**slots))
