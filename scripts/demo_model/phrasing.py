"""Many ways to say one thing: templates with alternatives, and the untidiness of real questions.

Knows nothing of topics. All chance comes from the `Random` it is given.
"""

import re
from collections.abc import Sequence
from random import Random

from .facts import FILLER

ALTERNATIVES = re.compile(r"\[([^\[\]]*)\]")

OPENINGS = (
    "Please", "Hey,", "Hi!", "Hello,", "Tell me:", "Quick question:", "Ok,", "So", "Now,", "And", "Well,",
    "Question:", "I wonder,", "Hi there,", "Good morning!", "Excuse me,", "Can you help me?", "Sorry,", "Um,",
    "Dear friend,", "My teacher asks:", "Look,", "Alright,", "Right now,", "Help!", "Friend,", "Hello again.",
    "One more:", "A question for you:", "My son wants to know:", "Let's see:", "Oh,", "Yes,", "Model:",
    "Bot,",
)  # fmt: skip
CLOSINGS = (
    "please", "Please.", "Thanks!", "Thank you.", "I forgot.", "Do you know?", "I need it for school.", "ok?",
    "Answer briefly.", "Be short.", "Can you tell me?", "It is urgent.", "Any idea?",
    "I would like to know.", "I want to learn it.", "I really need it.", "Many thanks!", "Thank you so much.",
    "Thanks a lot!", "Quickly.", "Please hurry.", "Be brief.", "Bye.", "That is all.", "I am curious.",
    "Take your time.", "My friend wants to know.", "It really matters.", "Very important!", "Good luck.",
)  # fmt: skip
HELD_OUT_OPENINGS = ("Hey there!", "Dear model,", "Could you help?", "Right,", "Listen,", "My friend asks:")
HELD_OUT_CLOSINGS = ("Thank you very much!", "I really want to know.", "Please be quick.", "Cheers.")


def expand(template: str, chance: Random) -> str:
    """Choose one of every `[a|b|c]`."""
    return ALTERNATIVES.sub(lambda found: chance.choice(found[1].split("|")), template)


def untidy(question: str, keep: Sequence[str], chance: Random) -> str:
    """The question as people type it: with extra words and slips. Words in `keep` stay."""
    if chance.random() < 0.3:
        question = _frame(question, OPENINGS, CLOSINGS, chance)
    if chance.random() < 0.08:
        question = _stuff(question, keep, chance)
    if chance.random() < 0.06:
        question = _slip(question, keep, chance)
    return question


def unseen(question: str, chance: Random) -> str:
    """Like `untidy`, with surroundings that training never shows."""
    if chance.random() < 0.4:
        return _frame(question, HELD_OUT_OPENINGS, HELD_OUT_CLOSINGS, chance)
    return question


def retype(question: str, chance: Random) -> str:
    """The same words in another case, or without the mark at the end."""
    mood = chance.random()
    if mood < 0.15:
        question = question.lower()
    elif mood < 0.25:
        question = lowered(question)
    if question.endswith(("?", ".")) and chance.random() < 0.2:
        question = question[:-1]
    return question + "!" if chance.random() < 0.02 else question


def lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def salad(count: int, chance: Random) -> str:
    """Words that mean nothing together."""
    return " ".join(chance.choices(FILLER, k=count))


def _frame(question: str, openings: Sequence[str], closings: Sequence[str], chance: Random) -> str:
    where = chance.random()
    if where < 0.65:
        question = f"{chance.choice(openings)} {lowered(question) if chance.random() < 0.7 else question}"
    if where > 0.55:
        question = f"{question} {chance.choice(closings)}"
    return question


def _stuff(question: str, keep: Sequence[str], chance: Random) -> str:
    """Put meaningless words before, after or into the question, never inside a phrase of `keep`."""
    words = salad(chance.randint(1, 5), chance)
    gaps = [
        found.start() for found in re.finditer(" ", question) if not _inside(found.start(), question, keep)
    ]
    match chance.randrange(3):
        case 0:
            return f"{words}{chance.choice(('', ',', '.', ':'))} {question}"
        case 1:
            return f"{question} {words}"
    if not gaps:
        return question
    gap = chance.choice(gaps)
    return f"{question[:gap]} {words}{question[gap:]}"


def _slip(question: str, keep: Sequence[str], chance: Random) -> str:
    """Swap or drop a letter of a word that does not carry the question."""
    spots = [
        found.start()
        for found in re.finditer(r"(?<=[a-z])[a-z](?=[a-z])", question)
        if not _inside(found.start(), question, keep) and not _inside(found.start() + 1, question, keep)
    ]
    if not spots:
        return question
    spot = chance.choice(spots)
    pair = question[spot : spot + 2]
    return question[:spot] + (pair[::-1] if chance.random() < 0.5 else pair[1]) + question[spot + 2 :]


def _inside(spot: int, question: str, keep: Sequence[str]) -> bool:
    starts = ((question.find(phrase), len(phrase)) for phrase in keep)
    return any(start >= 0 and start <= spot < start + length for start, length in starts)
