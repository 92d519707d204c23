"""Try a running server: python3 use.py. Each endpoint is called, streaming and not, and must answer.

A client like any other: knows HTTP and JSON, needs only the package requests.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import requests

QUESTION = "What's the capital of France?"
ANSWER = "Paris"
TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where it is, the body that asks it, and where the text stands in a whole answer."""

    path: str
    body: Callable[[str], dict[str, Any]]
    text: Callable[[dict[str, Any]], str]


ENDPOINTS = (
    Endpoint(
        "/inference/completion",
        lambda prompt: {"content": prompt},
        lambda whole: text_of(whole.get("content") or whole.get("completion_message")),
    ),
    Endpoint(
        "/inference/chat_completion",
        lambda prompt: {"messages": [{"role": "user", "content": prompt}]},
        lambda whole: text_of(whole["completion_message"]),
    ),
)


class Wrong(Exception):
    """The server did not answer as it should; the text says how."""


def main(arguments: list[str]) -> int:
    """0 when every endpoint answers; where the question is ours, the answer must be right."""
    options = parser().parse_args(arguments)
    try:
        options.model = options.model or served_model(options)
    except (Wrong, requests.RequestException) as error:
        print(f"WRONG: {error}", file=sys.stderr)
        return 1
    streams = (False, True) if options.stream is None else (options.stream,)
    failures = 0
    for endpoint in ENDPOINTS:
        for stream in streams:
            try:
                call(endpoint, stream, options)
            except (Wrong, requests.RequestException) as error:
                print(f"\nWRONG: {error}", file=sys.stderr)
                failures += 1
    return 1 if failures else 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description="Call each endpoint of a running server and check its answer.")
    made.add_argument("--url", default="http://127.0.0.1:8000", help="of the server (%(default)s)")
    made.add_argument("--prompt", default=QUESTION, help="what to ask (%(default)s)")
    made.add_argument("--max-tokens", type=int, default=100, help="of each answer (%(default)s)")
    made.add_argument("--model", help="the model's name (the one that the server says it has)")
    made.add_argument("--api-key", help="where the server asks for one")
    made.add_argument(
        "--stream", action=argparse.BooleanOptionalAction, default=None, help="only streams, or none (both)"
    )
    return made


def served_model(options: argparse.Namespace) -> str:
    with ask("GET", "/v1/models", options) as response:
        return str(response.json()["data"][0]["id"])


def ask(method: str, path: str, options: argparse.Namespace, **rest: Any) -> requests.Response:
    """One request, with the key where there is one. Raises Wrong where the server says no."""
    headers = {"Authorization": f"Bearer {options.api_key}"} if options.api_key else {}
    url = options.url.rstrip("/") + path
    response = requests.request(method, url, headers=headers, timeout=TIMEOUT_S, **rest)
    if not response.ok:
        raise Wrong(f"{path} says {response.status_code}: {response.text[:500]}")
    return response


def call(endpoint: Endpoint, stream: bool, options: argparse.Namespace) -> None:
    """Ask one endpoint, print its answer as it arrives and its speed. Raises Wrong."""
    print(f"{endpoint.path} {'streaming' if stream else 'whole'}: {options.prompt}")
    start = time.perf_counter()
    pieces = []
    for piece in answer(endpoint, stream, options):
        print(piece, end="", flush=True)
        pieces.append(piece)
    seconds = time.perf_counter() - start
    text = "".join(pieces)
    if not text.strip():
        raise Wrong(f"{endpoint.path} gave an empty answer")
    if options.prompt == QUESTION and ANSWER not in text:
        raise Wrong(f"{endpoint.path} should say {ANSWER}")
    print(f"\n{speed(len(pieces) if stream else None, seconds)}\n")


def answer(endpoint: Endpoint, stream: bool, options: argparse.Namespace) -> Iterator[str]:
    """The pieces of the answer: each token's text of a stream, or all at once."""
    body = endpoint.body(options.prompt) | {
        "model": options.model,
        "stream": stream,
        "sampling_params": {"strategy": {"type": "greedy"}, "max_tokens": options.max_tokens},
    }
    with ask("POST", endpoint.path, options, json=body, stream=stream) as response:
        if stream:
            yield from pieces_of(response)
        else:
            yield endpoint.text(response.json())


def pieces_of(response: requests.Response) -> Iterator[str]:
    """Texts from lines of JSON or server-sent events. Raises Wrong where a stream fails or ends early."""
    ended = False
    for line in response.iter_lines():
        line = line.removeprefix(b"data:").strip()
        if not line.startswith(b"{"):
            continue
        chunk = json.loads(line)
        if "error" in chunk:
            raise Wrong(f"the stream ends with {chunk['error']}")
        event = chunk.get("event", chunk)
        ended = ended or bool(event.get("stop_reason"))
        if text := text_of(event.get("delta")):
            yield text
    if not ended:
        raise Wrong("the stream ends without a stop_reason")


def text_of(value: Any) -> str:
    """The text in any of the shapes that the API's versions give it: plain, or within an object or a list."""
    if isinstance(value, dict):
        return text_of(value.get("text", value.get("content")))
    if isinstance(value, list):
        return "".join(map(text_of, value))
    return value if isinstance(value, str) else ""


def speed(num_tokens: int | None, seconds: float) -> str:
    if num_tokens is None:
        return f"({seconds:.2f} s)"
    return f"({num_tokens} tokens in {seconds:.2f} s: {num_tokens / seconds:.0f} tokens per second)"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
