"""Calls a server with the installed llama-stack-client and prints all results as JSON.

Runs in its own environment: python drive_llama_stack.py URL MODEL KEY, where KEY is this client's name for
the model's parameter (model or model_id). It knows only the client; tests check what it prints.
"""

import asyncio
import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

from llama_stack_client import APIStatusError, LlamaStackClient
from llama_stack_client.lib.inference.event_logger import EventLogger

QUESTION = "What's the capital of France?"
SCHEMA = {
    "type": "object",
    "properties": {"capital": {"type": "string"}},
    "required": ["capital"],
    "additionalProperties": False,
}
WEATHER = {
    "tool_name": "get_weather",
    "description": "Get the weather in a city",
    "parameters": {"city": {"param_type": "string", "description": "The city", "required": True}},
}
IMAGE = {"type": "image", "image": {"url": {"uri": "https://example.com/a.png"}}}


def main(url: str, model: str, key: str) -> None:
    client = LlamaStackClient(base_url=url, max_retries=0)
    named = {key: model}
    user = {"role": "user", "content": QUESTION}
    greedy = {"strategy": {"type": "greedy"}} if key == "model_id" else {"strategy": "greedy"}
    short = {"sampling_params": {**greedy, "max_tokens": 2}}
    shaped = {"response_format": {"type": "json_schema", "json_schema": SCHEMA}}
    scored = {"logprobs": {"top_k": 2}}
    armed = {"tools": [WEATHER], "tool_choice": "required"}

    def chat(user_message: Any = user, **options: Any) -> Any:
        return client.inference.chat_completion(**{**named, "messages": [user_message], **options})

    def complete(text: str = QUESTION, **options: Any) -> Any:
        return client.inference.completion(**{**named, "content": text, **options})

    probes: dict[str, Callable[[], Any]] = {
        "chat": lambda: chat(),
        "chat_stream": lambda: [event_fields(chunk) for chunk in chat(stream=True)],
        "chat_short": lambda: chat(**short),
        "chat_scored": lambda: chat(**scored, **short),
        "chat_scored_stream": lambda: [
            chunk.event.logprobs for chunk in chat(stream=True, **scored, **short)
        ],
        "chat_shaped": lambda: chat(extra_body=shaped),
        "chat_armed": lambda: chat(**armed),
        "chat_armed_stream": lambda: [event_fields(chunk) for chunk in chat(stream=True, **armed)],
        "chat_logged": lambda: logged(chat(stream=True)),
        "completion": lambda: complete(),
        "completion_short": lambda: complete(**short),
        "completion_scored": lambda: complete(**scored, **short),
        "completion_stream": lambda: streamed(complete(stream=True)),
        "completion_shaped": lambda: complete(extra_body=shaped),
        "error_model": lambda: chat(**{key: "nope"}),
        "error_model_stream": lambda: [event_fields(chunk) for chunk in chat(stream=True, **{key: "nope"})],
        "error_busy": lambda: chat({"role": "user", "content": "busy"}),
        "broken_stream": lambda: [
            event_fields(chunk) for chunk in chat({"role": "user", "content": "break"}, stream=True)
        ],
        "error_image": lambda: chat({"role": "user", "content": [IMAGE]}),
        "error_role": lambda: chat({"role": "bob", "content": "hi"}),
        "embeddings": lambda: embed(client, **named, contents=["a", "b"]),
        "models": lambda: list(client.models.list()),
        "model": lambda: retrieve_model(client, model),
        "health": lambda: client.inspect.health(),
        "version": lambda: client.inspect.version(),
        "providers": lambda: client.providers.list(),
        "routes": lambda: client.routes.list(),
    }
    print(json.dumps({name: outcome(probe) for name, probe in probes.items()}))


def outcome(probe: Callable[[], Any]) -> Any:
    try:
        return plain(probe())
    except APIStatusError as error:
        return {"raised": type(error).__name__, "status": error.status_code, "body": error.body}
    except (AttributeError, TypeError) as error:
        return {"raised": type(error).__name__, "body": str(error)}


def event_fields(chunk: Any) -> list[Any]:
    """The event's type, the class and the value of its delta, its stop reason; or ["error", chunk] without an
    event.
    """
    payload = getattr(chunk, "event", None)
    if payload is None:
        return ["error", chunk]
    return [payload.event_type, type(payload.delta).__name__, payload.delta, payload.stop_reason]


def streamed(chunks: Any) -> Any:
    """Each chunk's delta and stop reason, if the client can decode the stream of a completion."""
    return chunks if isinstance(chunks, str) else [[chunk.delta, chunk.stop_reason] for chunk in chunks]


def logged(chunks: Any) -> str:
    """What the client's own logger shows of a stream."""
    log = EventLogger().log(chunks)
    if inspect.isasyncgen(log):
        return asyncio.run(collect(log))
    return "".join(line.content for line in log)


async def collect(log: Any) -> str:
    return "".join([line.content async for line in log])


def embed(client: LlamaStackClient, **options: Any) -> Any:
    """Embeddings: the oldest clients have a resource where later ones have a method."""
    embeddings = client.inference.embeddings
    return getattr(embeddings, "create", embeddings)(**options)


def retrieve_model(client: LlamaStackClient, model: str) -> Any:
    parameters = inspect.signature(client.models.retrieve).parameters
    return client.models.retrieve(**{"identifier" if "identifier" in parameters else "model_id": model})


def plain(value: Any) -> Any:
    """The client's objects as JSON."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", warnings=False)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main(*sys.argv[1:])
