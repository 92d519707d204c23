"""Calls a server with the installed text-generation client and prints all results as JSON.

Runs in its own environment: python drive_text_generation.py URL. It knows only the client; tests check what
it prints.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from text_generation import AsyncClient, Client

QUESTION = "What is the capital of France?"
SAMPLED = {"do_sample": True, "max_new_tokens": 8, "seed": 7}
MESSAGES = [{"role": "user", "content": QUESTION}]


def main(url: str) -> None:
    client, other = Client(url, timeout=60), AsyncClient(url, timeout=60)

    def generate(prompt: str = QUESTION, **options: Any) -> Any:
        return client.generate(prompt, **options)

    def generate_stream(prompt: str = QUESTION, **options: Any) -> list[Any]:
        return list(client.generate_stream(prompt, **options))

    probes: dict[str, Callable[[], Any]] = {
        "whole": lambda: generate(),
        "full_text": lambda: generate(return_full_text=True),
        "short": lambda: generate(max_new_tokens=2),
        "prefill": lambda: generate(decoder_input_details=True, max_new_tokens=2),
        "top": lambda: generate(top_n_tokens=2, max_new_tokens=2),
        "sampled": lambda: generate(**SAMPLED),
        "best_of": lambda: generate(best_of=2, do_sample=True, max_new_tokens=4),
        "stopped": lambda: generate(stop_sequences=[" capital"], max_new_tokens=9),
        "watermarked": lambda: generate(watermark=True, typical_p=0.9, top_k=9, top_p=0.9, temperature=0.7),
        "stream": lambda: generate_stream(),
        "stream_sampled": lambda: generate_stream(**SAMPLED),
        "async": lambda: asyncio.run(other.generate(QUESTION)),
        "async_stream": lambda: asyncio.run(collect(other.generate_stream(QUESTION))),
        "error_value": lambda: generate(top_n_tokens=99),
        "error_value_stream": lambda: generate_stream(top_n_tokens=99),
        "error_value_async": lambda: asyncio.run(other.generate(QUESTION, top_n_tokens=99)),
        "error_length": lambda: generate(max_new_tokens=1_000_000),
        "error_busy": lambda: generate("busy"),
        "error_busy_stream": lambda: generate_stream("busy"),
        "error_break_stream": lambda: generate_stream("break"),
        "error_break": lambda: generate("break"),
        "error_path": lambda: Client(url + "/nowhere").generate(QUESTION),
    }
    if hasattr(client, "chat"):
        probes |= {
            "chat": lambda: client.chat(MESSAGES, max_tokens=9, temperature=0.0),
            "chat_stream": lambda: read_chat(
                client.chat(MESSAGES, max_tokens=9, temperature=0.0, stream=True)
            ),
            "error_chat": lambda: client.chat(MESSAGES, temperature=-1.0),
        }
    print(json.dumps({name: outcome(probe) for name, probe in probes.items()}))


def outcome(probe: Callable[[], Any]) -> Any:
    try:
        return plain(probe())
    except Exception as error:
        return {"raised": type(error).__name__, "message": str(error)}


def read_chat(chunks: Any) -> dict[str, Any]:
    """The chunks that this client can read, and the error at the one that it cannot."""
    got: list[Any] = []
    try:
        for chunk in chunks:
            got.append(chunk)
    except json.JSONDecodeError as error:
        return {"chunks": plain(got), "raised": type(error).__name__, "at": error.doc.strip()}
    return {"chunks": plain(got)}


async def collect(events: Any) -> list[Any]:
    return [event async for event in events]


def plain(value: Any) -> Any:
    """The client's objects as JSON."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main(*sys.argv[1:])
