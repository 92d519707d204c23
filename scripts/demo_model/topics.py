"""Topics: kinds of questions with their phrasings and answers. Draws questions for training and for the exam.

Every question has exactly one right answer. The topics themselves are in knowledge.py and small_talk.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from scripts.demo_model.phrasing import expand, lowered, retype, unseen, untidy

Slots = dict[str, str]


@dataclass(frozen=True, slots=True)
class Topic:
    """One kind of question. Texts are templates, see phrasing.expand, with {slots} that `draw` fills.

    name                 also the exam's subject
    draw                 draws the facts of one question: texts by slot name
    answer_text          the full answer
    phrasings            of the question in training
    held_out             phrasings of the question in the exam only
    short_answer         the fact alone; "": there is none
    follow_ups           short questions after another question of the topic: "And of Italy?"
    held_out_follow_ups  follow-ups in the exam only
    protected_words      words that noise must not change, in addition to the slots
    statements           the fact as plain text, for completion without a chat
    is_noisy             whether noise may change the question; otherwise question and answer stay as written
    """

    name: str
    draw: Callable[[Random], Slots]
    answer_text: str
    phrasings: tuple[str, ...]
    held_out: tuple[str, ...]
    short_answer: str = ""
    follow_ups: tuple[str, ...] = ()
    held_out_follow_ups: tuple[str, ...] = ()
    protected_words: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    is_noisy: bool = True


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its right answer, in full and short."""

    topic: str
    text: str
    answer_text: str
    short_answer: str


def ask(topic: Topic, rng: Random) -> Question:
    """A question of the topic for training, sometimes with noise."""
    slots = topic.draw(rng)
    text = _fill(rng.choice(topic.phrasings), slots, rng)
    if topic.is_noisy:
        text = untidy(text, (*topic.protected_words, *slots.values()), rng)
    return _question(topic, _retyped(topic, text, rng), slots)


def examine(topic: Topic, rng: Random) -> Question:
    """A question of the topic for the exam, in a phrasing that training does not use."""
    slots = topic.draw(rng)
    text = _fill(rng.choice(topic.held_out), slots, rng)
    if topic.is_noisy:
        text = unseen(text, rng)
    return _question(topic, _retyped(topic, text, rng), slots)


def follow(topic: Topic, rng: Random, *, held_out: bool = False) -> Question:
    """A follow-up question, which needs another question of the topic before it."""
    slots = topic.draw(rng)
    text = _fill(rng.choice(topic.held_out_follow_ups if held_out else topic.follow_ups), slots, rng)
    return _question(topic, lowered(text) if rng.random() < 0.2 else text, slots)


def tell(topic: Topic, rng: Random) -> str:
    """A fact of the topic as a plain sentence."""
    return _fill(rng.choice(topic.statements or (topic.answer_text,)), topic.draw(rng), rng)


def _fill(template: str, slots: Mapping[str, str], rng: Random) -> str:
    text = expand(template, rng).format(**slots)
    return text[:1].upper() + text[1:]


def _retyped(topic: Topic, text: str, rng: Random) -> str:
    if topic.is_noisy:
        return retype(text, rng)
    return lowered(text) if rng.random() < 0.3 else text


def _question(topic: Topic, text: str, slots: Mapping[str, str]) -> Question:
    answer_text = topic.answer_text.format(**slots)
    if topic.is_noisy:
        answer_text = answer_text[:1].upper() + answer_text[1:]
    return Question(topic.name, text, answer_text, topic.short_answer.format(**slots))
