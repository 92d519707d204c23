"""The runners to start the server with, and one streamed request for each dialect.

Each answer has NUM_TOKENS tokens of models/demo, sampled at temperature 1 with a seed.
"""

from typing import Any, NamedTuple

MODEL = "models/demo"
NUM_TOKENS = 11

# The flag of main.py that selects the runner, and its values.
RUNNER_FLAG = "--runner"
RUNNERS = ("fused", "paged", "contiguous", "uncached")

MESSAGES = [{"role": "user", "content": "Count from 1 to 60."}]
PROMPT = "1, 2, 3,"
SEED = 1
LLAMA_STACK_PARAMS = {
    "strategy": {"type": "top_p", "temperature": 1.0, "top_p": 1.0},
    "max_tokens": NUM_TOKENS,
    "seed": SEED,
}


class Target(NamedTuple):
    """A streamed request: the path and the JSON body to post."""

    path: str
    body: dict[str, Any]


DIALECTS = {
    "openai-chat": Target(
        "/v1/chat/completions",
        {"messages": MESSAGES, "max_tokens": NUM_TOKENS, "temperature": 1, "seed": SEED, "stream": True},
    ),
    "openai-completion": Target(
        "/v1/completions",
        {"prompt": PROMPT, "max_tokens": NUM_TOKENS, "temperature": 1, "seed": SEED, "stream": True},
    ),
    "llama-stack-chat": Target(
        "/inference/chat_completion",
        {"model": MODEL, "messages": MESSAGES, "sampling_params": LLAMA_STACK_PARAMS, "stream": True},
    ),
    "tgi": Target(
        "/generate_stream",
        {"inputs": PROMPT, "parameters": {"max_new_tokens": NUM_TOKENS, "do_sample": True, "seed": SEED}},
    ),
    "neodim": Target(
        "/generate",
        {
            "prompt": PROMPT,
            "generated_tokens_count": NUM_TOKENS,
            "max_total_tokens": 64,
            "temperature": 1,
            "seed": SEED,
            "stream": True,
        },
    ),
}
