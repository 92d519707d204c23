"""Try a running server: python3 use.py. Calls each endpoint, with and without streaming.

An ordinary HTTP client: it needs only the package requests. Finds the server by the settings that the server
reads: config.py, .env and the environment.
"""

import argparse
import ipaddress
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3

from inference.process.closed_output import exit_with
from settings.schema import BadSetting, Settings
from settings.sources import read_sources, resolve

HOME = Path(__file__).resolve().parent
EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # HOST, and an address by which this machine reaches it
QUESTION = "What's the capital of France?"
EXPECTED_ANSWER = "Paris"
TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint's path, its request body for a prompt, and the text of its unstreamed response body."""

    path: str
    body: Callable[[str], dict[str, Any]]
    text: Callable[[dict[str, Any]], str]


ENDPOINTS = (
    Endpoint(
        "/inference/completion",
        lambda prompt: {"content": prompt},
        lambda response_body: text_of(
            response_body.get("content") or response_body.get("completion_message")
        ),
    ),
    Endpoint(
        "/inference/chat_completion",
        lambda prompt: {"messages": [{"role": "user", "content": prompt}]},
        lambda response_body: text_of(response_body["completion_message"]),
    ),
)


class UnexpectedResponse(Exception):
    """The server did not answer as expected; the message says how."""


def main(arguments: list[str]) -> int:
    """Returns 0 if every endpoint answers. The default question must be answered with EXPECTED_ANSWER."""
    options = make_parser().parse_args(arguments)
    try:
        fill_defaults(options, resolve(read_sources(HOME, os.environ)))
    except BadSetting as error:
        print(f"hearth: {error}", file=sys.stderr)
        return 2
    try:
        options.model = options.model or served_model(options)
    except (UnexpectedResponse, requests.RequestException) as error:
        print(f"WRONG: {error}", file=sys.stderr)
        return 1
    streams = (False, True) if options.stream is None else (options.stream,)
    num_failures = 0
    for endpoint in ENDPOINTS:
        for stream in streams:
            try:
                call(endpoint, stream, options)
            except (UnexpectedResponse, requests.RequestException) as error:
                print(f"\nWRONG: {error}", file=sys.stderr)
                num_failures += 1
    return 1 if num_failures else 0


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Call each endpoint of a running server and check its answer."
    )
    parser.add_argument(
        "--url", help="URL of the server (default: the server of the settings, on this machine)"
    )
    parser.add_argument("--prompt", default=QUESTION, help="the prompt (%(default)s)")
    parser.add_argument("--max-tokens", type=int, default=100, help="limit for each answer (%(default)s)")
    parser.add_argument("--model", help="name of the model (default: the model that the server serves)")
    parser.add_argument(
        "--api-key",
        help="API key, if the server requires one (default: on this machine, the first of API_KEYS)",
    )
    parser.add_argument(
        "--stream",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="call each endpoint only with, or only without streaming (default: both)",
    )
    return parser


def fill_defaults(options: argparse.Namespace, settings: Settings) -> None:
    """Set the URL and the API key from the server's settings. Another machine does not get the key.

    The certificate of a server on this machine is not verified: it names the public host, if any.
    """
    is_own_server = options.url is None or is_loopback(options.url)
    options.url = options.url or server_url(settings)
    options.verify = not is_own_server
    if options.api_key is None and is_own_server and settings.api_keys:
        options.api_key = settings.api_keys[0]


def server_url(settings: Settings) -> str:
    """The URL of the server on this machine."""
    host = EVERY_ADDRESS.get(settings.host, settings.host)
    scheme = "https" if settings.ssl_certfile else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.port}"


def is_loopback(url: str) -> bool:
    """Whether the URL is of this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def served_model(options: argparse.Namespace) -> str:
    with send_request("GET", "/v1/models", options) as response:
        return str(response.json()["data"][0]["id"])


def send_request(
    method: str, path: str, options: argparse.Namespace, **options_of_request: Any
) -> requests.Response:
    """Send one request, with the API key if one is set. Raises UnexpectedResponse for an error status."""
    headers = {"Authorization": f"Bearer {options.api_key}"} if options.api_key else {}
    url = options.url.rstrip("/") + path
    response = requests.request(
        method, url, headers=headers, timeout=TIMEOUT_S, verify=options.verify, **options_of_request
    )
    if not response.ok:
        raise UnexpectedResponse(f"{path} responds with status {response.status_code}: {response.text[:500]}")
    return response


def call(endpoint: Endpoint, stream: bool, options: argparse.Namespace) -> None:
    """Call one endpoint, and print its answer as it arrives, then its speed. Raises UnexpectedResponse."""
    print(f"{endpoint.path} {'streaming' if stream else 'not streaming'}: {options.prompt}")
    start = time.perf_counter()
    chunks = []
    for chunk in read_answer(endpoint, stream, options):
        print(chunk, end="", flush=True)
        chunks.append(chunk)
    seconds = time.perf_counter() - start
    text = "".join(chunks)
    if not text.strip():
        raise UnexpectedResponse(f"{endpoint.path} gave an empty answer")
    if options.prompt == QUESTION and EXPECTED_ANSWER not in text:
        raise UnexpectedResponse(f"{endpoint.path} gave an answer without {EXPECTED_ANSWER}")
    print(f"\n{speed(len(chunks) if stream else None, seconds)}\n")


def read_answer(endpoint: Endpoint, stream: bool, options: argparse.Namespace) -> Iterator[str]:
    """Yield the text of each token of a stream, or the full text once."""
    body = endpoint.body(options.prompt) | {
        "model": options.model,
        "stream": stream,
        "sampling_params": {"strategy": {"type": "greedy"}, "max_tokens": options.max_tokens},
    }
    with send_request("POST", endpoint.path, options, json=body, stream=stream) as response:
        if stream:
            yield from read_stream(response)
        else:
            yield endpoint.text(response.json())


def read_stream(response: requests.Response) -> Iterator[str]:
    """Yield the texts of JSON lines or server-sent events. Raises UnexpectedResponse if the stream fails."""
    is_finished = False
    for line in response.iter_lines():
        line = line.removeprefix(b"data:").strip()
        if not line.startswith(b"{"):
            continue
        chunk = json.loads(line)
        if "error" in chunk:
            raise UnexpectedResponse(f"the stream ends with an error: {chunk['error']}")
        event = chunk.get("event", chunk)
        is_finished = is_finished or bool(event.get("stop_reason"))
        if text := text_of(event.get("delta")):
            yield text
    if not is_finished:
        raise UnexpectedResponse("the stream ends without a stop_reason")


def text_of(value: Any) -> str:
    """The text of `value`: API versions differ in returning a string, an object or a list."""
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
    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    exit_with(main)
