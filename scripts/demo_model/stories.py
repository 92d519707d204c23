"""Generates small stories from templates: the demo model's only long and varied texts."""

from random import Random

HEROES = ("fox", "bear", "mouse", "rabbit", "cat", "dog", "bird", "frog", "horse", "owl")
NAMES = ("Anna", "Leo", "Mia", "Tom", "Zoe", "Felix", "Grace", "Hugo")
MOODS = ("small", "brave", "kind", "clever", "happy", "shy", "curious", "old")
PLACES = ("forest", "garden", "village", "valley", "house", "meadow")
OBJECTS = ("a red apple", "a golden key", "an old map", "a blue stone", "a lost hat", "a tiny door")
FRIENDS = ("a wise owl", "a friendly cow", "a quiet fish", "a funny duck", "a gentle wolf")
ENDS = (
    "They became friends and lived happily ever after.",
    "They shared it and laughed until night came.",
    "Then they walked home together under the stars.",
)
PHRASINGS = (
    "tell me a story[.| please.]",
    "[write|tell] [me |]a [short |little |]story.",
    "can you tell [me |]a story?",
    "a story, please",
    "i want [to hear |]a story.",
    "tell me a [bedtime |fairy |]tale.",
    "make up a story[.| about {hero}.]",
    "tell me a story about {hero}.",
)


def story(rng: Random) -> str:
    hero, name, place = rng.choice(HEROES), rng.choice(NAMES), rng.choice(PLACES)
    object_text, friend = rng.choice(OBJECTS), rng.choice(FRIENDS)
    return (
        f"Once upon a time there was a {rng.choice(MOODS)} {hero} named {name}. "
        f"{name} lived in a {place}. One day {name} found {object_text}. "
        f'"What is this?" said {name}. {name} took it to {friend}. '
        f'"It is {object_text}," said the friend. {rng.choice(ENDS)}'
    )
