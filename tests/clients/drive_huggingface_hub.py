"""Calls a server with the installed huggingface_hub and prints all results as JSON.

Runs in its own environment: python drive_huggingface_hub.py URL. It knows only the client; tests check what
it prints.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from typing import Any

from huggingface_hub import AsyncInferenceClient, InferenceClient

QUESTION = "What is the capital of France?"
MESSAGES = [{"role": "user", "content": QUESTION}]
SCHEMA = {
    "type": "object",
    "properties": {"capital": {"type": "string"}},
    "required": ["capital"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def main(url: str) -> None:
    client = InferenceClient(model=url, timeout=60)
    endpoint = InferenceClient(provider="hf-inference", model=url, timeout=60)

    def generate(prompt: str = QUESTION, **options: Any) -> Any:
        return client.text_generation(prompt, **options)

    def generate_stream(prompt: str = QUESTION, **options: Any) -> list[Any]:
        return list(client.text_generation(prompt, stream=True, **options))

    def chat(**options: Any) -> Any:
        return client.chat_completion(MESSAGES, **options)

    scored = {"details": True, "return_full_text": False}
    shaped = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    probes: dict[str, Callable[[], Any]] = {
        "text": lambda: generate(),
        "text_only_answer": lambda: generate(return_full_text=False),
        "whole": lambda: generate(max_new_tokens=3, top_n_tokens=2, **scored),
        "prefill": lambda: generate(max_new_tokens=2, decoder_input_details=True, **scored),
        "sampled": lambda: generate(do_sample=True, seed=7, max_new_tokens=8, **scored),
        "best_of": lambda: generate(do_sample=True, best_of=2, max_new_tokens=4, **scored),
        "stopped": lambda: generate(stop=[" capital"], max_new_tokens=9, **scored),
        "grammar": lambda: generate(grammar={"type": "json", "value": SCHEMA}, return_full_text=False),
        "stream": lambda: generate_stream(return_full_text=False),
        "stream_details": lambda: generate_stream(**scored),
        "async": lambda: asyncio.run(generate_async(url)),
        "async_stream": lambda: asyncio.run(stream_async(url)),
        "chat": lambda: chat(max_tokens=9, temperature=0.0),
        "chat_stream": lambda: list(chat(max_tokens=9, temperature=0.0, stream=True)),
        "chat_scored": lambda: chat(max_tokens=2, temperature=0.0, logprobs=True, top_logprobs=2),
        "chat_shaped": lambda: chat(response_format=shaped),
        "chat_armed": lambda: chat(tools=[WEATHER], tool_choice="required"),
        "error_value": lambda: generate(top_n_tokens=99, details=True),
        "error_value_stream": lambda: generate_stream(top_n_tokens=99, details=True),
        "error_busy": lambda: generate("busy", details=True),
        "error_busy_stream": lambda: generate_stream("busy", details=True),
        "error_break": lambda: generate("break", details=True),
        "error_break_stream": lambda: generate_stream("break", details=True),
        "error_chat": lambda: chat(temperature=-1.0),
        "error_model": lambda: InferenceClient(base_url=url).chat_completion(MESSAGES, model="nobody"),
    }
    if hasattr(endpoint, "get_endpoint_info"):
        probes |= {"info": endpoint.get_endpoint_info, "health": endpoint.health_check}
    print(json.dumps({name: outcome(probe) for name, probe in probes.items()}))


async def generate_async(url: str) -> Any:
    client = AsyncInferenceClient(model=url, timeout=60)
    return await client.text_generation(QUESTION, details=True, return_full_text=False)


async def stream_async(url: str) -> list[Any]:
    client = AsyncInferenceClient(model=url, timeout=60)
    events = await client.text_generation(QUESTION, stream=True, details=True)
    return [event async for event in events]


def outcome(probe: Callable[[], Any]) -> Any:
    try:
        return plain(probe())
    except Exception as error:
        return {"raised": type(error).__name__, "message": str(error)}


def plain(value: Any) -> Any:
    """The client's objects as JSON."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main(*sys.argv[1:])
