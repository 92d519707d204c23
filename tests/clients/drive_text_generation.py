"""Calls a server with whichever text-generation client is installed beside it, and prints all it got as JSON.

Run in an environment of its own: python drive_text_generation.py URL. Knows the client alone; tests judge
what is printed.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from text_generation import AsyncClient, Client

QUESTION = "What is the capital of France?"
SAMPLED = {"do_sample": True, "max_new_tokens": 8, "seed": 7}
SAID = [{"role": "user", "content": QUESTION}]


def main(url: str) -> None:
    client, other = Client(url, timeout=60), AsyncClient(url, timeout=60)

    def told(prompt: str = QUESTION, **options: Any) -> Any:
        return client.generate(prompt, **options)

    def streamed(prompt: str = QUESTION, **options: Any) -> list[Any]:
        return list(client.generate_stream(prompt, **options))

    probes: dict[str, Callable[[], Any]] = {
        "whole": lambda: told(),
        "full_text": lambda: told(return_full_text=True),
        "short": lambda: told(max_new_tokens=2),
        "prefill": lambda: told(decoder_input_details=True, max_new_tokens=2),
        "top": lambda: told(top_n_tokens=2, max_new_tokens=2),
        "sampled": lambda: told(**SAMPLED),
        "best_of": lambda: told(best_of=2, do_sample=True, max_new_tokens=4),
        "stopped": lambda: told(stop_sequences=[" capital"], max_new_tokens=9),
        "watermarked": lambda: told(watermark=True, typical_p=0.9, top_k=9, top_p=0.9, temperature=0.7),
        "stream": lambda: streamed(),
        "stream_sampled": lambda: streamed(**SAMPLED),
        "async": lambda: asyncio.run(other.generate(QUESTION)),
        "async_stream": lambda: asyncio.run(gathered(other.generate_stream(QUESTION))),
        "error_value": lambda: told(top_n_tokens=99),
        "error_value_stream": lambda: streamed(top_n_tokens=99),
        "error_value_async": lambda: asyncio.run(other.generate(QUESTION, top_n_tokens=99)),
        "error_length": lambda: told(max_new_tokens=1_000_000),
        "error_busy": lambda: told("busy"),
        "error_busy_stream": lambda: streamed("busy"),
        "error_break_stream": lambda: streamed("break"),
        "error_break": lambda: told("break"),
        "error_path": lambda: Client(url + "/nowhere").generate(QUESTION),
    }
    if hasattr(client, "chat"):
        probes |= {
            "chat": lambda: client.chat(SAID, max_tokens=9),
            "chat_stream": lambda: chatted(client.chat(SAID, max_tokens=9, stream=True)),
            "error_chat": lambda: client.chat(SAID, temperature=-1.0),
        }
    print(json.dumps({name: outcome(probe) for name, probe in probes.items()}))


def outcome(probe: Callable[[], Any]) -> Any:
    try:
        return plain(probe())
    except Exception as error:
        return {"raised": type(error).__name__, "message": str(error)}


def chatted(chunks: Any) -> dict[str, Any]:
    """The chunks up to the end that this client cannot read, and what it makes of that."""
    got: list[Any] = []
    try:
        for chunk in chunks:
            got.append(chunk)
    except json.JSONDecodeError as error:
        return {"chunks": plain(got), "raised": type(error).__name__, "at": error.doc.strip()}
    return {"chunks": plain(got)}


async def gathered(events: Any) -> list[Any]:
    return [event async for event in events]


def plain(value: Any) -> Any:
    """The client's objects as JSON."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main(*sys.argv[1:])
