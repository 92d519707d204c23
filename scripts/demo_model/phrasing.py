"""Expands templates with alternatives, and adds noise to questions: greetings, other words, typing errors.

Knows nothing about topics. All randomness comes from the `rng` argument.
"""

import re
from collections.abc import Sequence
from random import Random

from scripts.demo_model.facts import FILLER

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


def expand(template: str, rng: Random) -> str:
    """Replace each `[a|b|c]` in the template by one of its alternatives."""
    return ALTERNATIVES.sub(lambda match: rng.choice(match[1].split("|")), template)


def untidy(question: str, protected_words: Sequence[str], rng: Random) -> str:
    """The question, sometimes with extra words or a typing error. `protected_words` stay unchanged."""
    if rng.random() < 0.3:
        question = _frame(question, OPENINGS, CLOSINGS, rng)
    if rng.random() < 0.08:
        question = _stuff(question, protected_words, rng)
    if rng.random() < 0.06:
        question = _slip(question, protected_words, rng)
    return question


def unseen(question: str, rng: Random) -> str:
    """The question, sometimes with an opening or closing that training does not use."""
    if rng.random() < 0.4:
        return _frame(question, HELD_OUT_OPENINGS, HELD_OUT_CLOSINGS, rng)
    return question


def retype(question: str, rng: Random) -> str:
    """The question, sometimes in lower case or with other punctuation at its end."""
    mood = rng.random()
    if mood < 0.15:
        question = question.lower()
    elif mood < 0.25:
        question = lowered(question)
    if question.endswith(("?", ".")) and rng.random() < 0.2:
        question = question[:-1]
    return question + "!" if rng.random() < 0.02 else question


def lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def salad(count: int, rng: Random) -> str:
    """`count` random words."""
    return " ".join(rng.choices(FILLER, k=count))


def _frame(question: str, openings: Sequence[str], closings: Sequence[str], rng: Random) -> str:
    position = rng.random()
    if position < 0.65:
        question = f"{rng.choice(openings)} {lowered(question) if rng.random() < 0.7 else question}"
    if position > 0.55:
        question = f"{question} {rng.choice(closings)}"
    return question


def _stuff(question: str, protected_words: Sequence[str], rng: Random) -> str:
    """Insert random words before, after or into the question, but not inside a protected phrase."""
    words = salad(rng.randint(1, 5), rng)
    gaps = [
        match.start()
        for match in re.finditer(" ", question)
        if not _inside(match.start(), question, protected_words)
    ]
    match rng.randrange(3):
        case 0:
            return f"{words}{rng.choice(('', ',', '.', ':'))} {question}"
        case 1:
            return f"{question} {words}"
    if not gaps:
        return question
    gap = rng.choice(gaps)
    return f"{question[:gap]} {words}{question[gap:]}"


def _slip(question: str, protected_words: Sequence[str], rng: Random) -> str:
    """Make a typing error: swap or drop a letter outside protected phrases."""
    spots = [
        match.start()
        for match in re.finditer(r"(?<=[a-z])[a-z](?=[a-z])", question)
        if not _inside(match.start(), question, protected_words)
        and not _inside(match.start() + 1, question, protected_words)
    ]
    if not spots:
        return question
    spot = rng.choice(spots)
    pair = question[spot : spot + 2]
    return question[:spot] + (pair[::-1] if rng.random() < 0.5 else pair[1]) + question[spot + 2 :]


def _inside(spot: int, question: str, protected_words: Sequence[str]) -> bool:
    starts = ((question.find(phrase), len(phrase)) for phrase in protected_words)
    return any(start >= 0 and start <= spot < start + length for start, length in starts)
