"""The simulated load: conversations that share system prompts, and grow with each turn.

Prompts are made of blocks as the prefix index has them; nothing here has a text.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from inference.remote.members.member_load import Prompt
from inference.remote.members.prefix_index import BLOCK_BYTES, BYTES_PER_TOKEN

BLOCK_TOKENS = BLOCK_BYTES // BYTES_PER_TOKEN
SYSTEM_TOKENS = (256, 4096)  # of a system prompt with its tools
USER_TOKENS = (16, 512)  # of a message
OUTPUT_TOKENS = (16, 160)  # of an answer
MAX_TURNS = 8
MEAN_TURNS = (1 + MAX_TURNS) / 2
MEAN_PAUSE_S = 4.0  # between an answer and the next message


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The load of a simulation.

    rate  requests a second of all replicas together
    zipf  exponent of the system prompts' popularity
    """

    rate: float
    num_systems: int
    zipf: float


@dataclass(frozen=True, slots=True)
class SimulatedTurn:
    """One request. computed: the prompt with its answer. pause_s: seconds until the next turn."""

    prompt: Prompt
    num_output_tokens: int
    computed: Prompt
    pause_s: float


@dataclass(frozen=True, slots=True)
class SimulatedConversation:
    starts_at: float
    turns: tuple[SimulatedTurn, ...]


def make_conversations(options: LoadOptions, seconds: float, seed: int) -> Iterator[SimulatedConversation]:
    """The conversations that start within `seconds`, in their order."""
    rng = random.Random(seed)
    system_tokens = [rng.randint(*SYSTEM_TOKENS) for _ in range(options.num_systems)]
    popularity = [1 / (rank + 1) ** options.zipf for rank in range(options.num_systems)]
    now, number = 0.0, 0
    while (now := now + rng.expovariate(options.rate / MEAN_TURNS)) < seconds:
        system = rng.choices(range(options.num_systems), popularity)[0]
        yield SimulatedConversation(now, tuple(make_turns(rng, number, system, system_tokens[system])))
        number += 1


def make_turns(
    rng: random.Random, number: int, system: int, num_system_tokens: int
) -> Iterator[SimulatedTurn]:
    num_tokens = num_system_tokens
    for _ in range(rng.randint(1, MAX_TURNS)):
        num_tokens += rng.randint(*USER_TOKENS)
        prompt = make_prompt(number, system, num_system_tokens, num_tokens)
        num_output_tokens = rng.randint(*OUTPUT_TOKENS)
        num_tokens += num_output_tokens
        computed = make_prompt(number, system, num_system_tokens, num_tokens)
        yield SimulatedTurn(prompt, num_output_tokens, computed, rng.expovariate(1 / MEAN_PAUSE_S))


def make_prompt(number: int, system: int, num_system_tokens: int, num_tokens: int) -> Prompt:
    """The conversation's first num_tokens. Blocks within the system prompt are those of all that have it."""
    num_shared = num_system_tokens // BLOCK_TOKENS
    hashes = [
        hash((system, -1, block) if block < num_shared else (system, number, block))
        for block in range(num_tokens // BLOCK_TOKENS)
    ]
    return Prompt(num_tokens * BYTES_PER_TOKEN, hashes)
