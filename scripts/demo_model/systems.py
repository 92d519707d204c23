"""System prompts without effect: the model learns to give the same answers with and without them."""

from random import Random

from scripts.demo_model.phrasing import expand, salad

PROMPTS = (
    "You are a helpful assistant.",
    "You are a helpful assistant",
    "You are a [friendly|helpful|kind|smart|polite|concise] [assistant|bot|teacher|chatbot|model].",
    "You are a [friendly|helpful|kind] AI assistant. [Answer briefly.|Be concise.|Be polite.|Keep it short.]",
    "Answer [the question|questions|briefly|shortly|in one sentence|politely|truthfully].",
    "You are a pirate. Talk like a pirate.",
    "You are an expert in [geography|history|cooking|law|medicine|music|mathematics].",
    "Always answer in [English|one sentence|a friendly tone|short sentences].",
    "Be [concise|brief|nice|helpful|honest].",
    "Today is {salad}.",
    "You work for a [bank|shop|hotel|school|library]. Help the customers. {salad}.",
    "{salad}. {salad}.",
    "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024",
    "Do not talk about politics. {salad}.",
    "Environment: ipython",
    "You help people with {salad}. Never say {salad}.",
)
HELD_OUT = (
    "You are a cheerful guide in a museum. Be short and kind.",
    "You are a helpful, respectful and honest assistant. Always answer as helpfully as possible.",
    "Reply to the user in plain English.",
    "You talk to children in a primary school; use simple words.",
    "Act as a support agent of a phone company. Never give refunds.",
)


def system_prompt(rng: Random) -> str:
    """A system prompt: mostly one line, sometimes a long text of random words."""
    if rng.random() < 0.06:
        return ". ".join(salad(rng.randint(5, 20), rng) for _ in range(rng.randint(5, 25)))
    return expand(rng.choice(PROMPTS), rng).replace("{salad}", salad(rng.randint(1, 8), rng))
