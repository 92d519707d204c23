"""Small stories out of a grammar: the one thing the demo model tells at length and never twice alike."""

from random import Random

HEROES = ("fox", "bear", "mouse", "rabbit", "cat", "dog", "bird", "frog", "horse", "owl")
NAMES = ("Anna", "Leo", "Mia", "Tom", "Zoe", "Felix", "Grace", "Hugo")
MOODS = ("small", "brave", "kind", "clever", "happy", "shy", "curious", "old")
PLACES = ("forest", "garden", "village", "valley", "house", "meadow")
FINDS = ("a red apple", "a golden key", "an old map", "a blue stone", "a lost hat", "a tiny door")
FRIENDS = ("a wise owl", "a friendly cow", "a quiet fish", "a funny duck", "a gentle wolf")
ENDS = (
    "They became friends and lived happily ever after.",
    "They shared it and laughed until night came.",
    "Then they walked home together under the stars.",
)


def story(chance: Random) -> str:
    hero, name, place = chance.choice(HEROES), chance.choice(NAMES), chance.choice(PLACES)
    find, friend = chance.choice(FINDS), chance.choice(FRIENDS)
    return (
        f"Once upon a time there was a {chance.choice(MOODS)} {hero} named {name}. "
        f"{name} lived in a {place}. One day {name} found {find}. "
        f'"What is this?" said {name}. {name} took it to {friend}. '
        f'"It is {find}," said the friend. {chance.choice(ENDS)}'
    )


ASKS = (
    "tell me a story[.| please.]",
    "[write|tell] [me |]a [short |little |]story.",
    "can you tell [me |]a story?",
    "a story, please",
    "i want [to hear |]a story.",
    "tell me a [bedtime |fairy |]tale.",
    "make up a story[.| about {hero}.]",
    "tell me a story about {hero}.",
)
