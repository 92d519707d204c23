"""Ordinary requests of every kind, for the time before a measurement and between hostile requests."""

import random
from typing import Any

from scripts.robustness.server import Server

WORDS = ("river", "stone", "seven", "quick", "amber", "cloud", "listen", "paper", "north", "engine")
NUM_CACHE_PROMPTS = 24  # of 1,000 words each, no two alike: they fill a small KV cache
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": SCHEMA}}
JSON_FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
ORDINARY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 16}),
    ("/v1/completions", {"prompt": "Once", "max_tokens": 40, "stream": True, "logprobs": 2}),
    ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 16, "n": 2}),
    ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 16, "tools": [TOOL], "stream": True}),
    ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 16, "response_format": JSON_FORMAT}),
    ("/v1/responses", {"input": "Hello", "max_output_tokens": 16}),
    ("/v1/embeddings", {"input": ["a river", "a stone"]}),
    ("/generate", {"inputs": "Hello", "parameters": {"max_new_tokens": 16}}),
    ("/generate", {"prompt": "Hello", "generated_tokens_count": 16, "max_total_tokens": 100}),
    ("/inference/chat_completion", {"model": "models/demo", "messages": MESSAGES}),
)


def warm_up(server: Server) -> None:
    """Compute every kind of request, and fill the KV cache: later growth is that of what follows."""
    draws = random.Random(0)
    for path, body in 2 * ORDINARY:
        assert server.post(path, body).status == 200, path
    for _ in range(NUM_CACHE_PROMPTS):
        prompt = " ".join(draws.choice(WORDS) for _ in range(1000))
        server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1})
