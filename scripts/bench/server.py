"""The server as a user starts it, asked over HTTP as clients ask it: streamed completions of token ids.

What it speaks is OpenAI's protocol with vLLM's `ignore_eos`, so that other servers can be asked the same way.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.bench.contender import Lost
from scripts.bench.load import Load, Request, Run
from scripts.bench.models import folder
from scripts.bench.terms import AUTO, NONE, Terms
from scripts.bench.tree import Tree

ROOT = Path(__file__).resolve().parents[2]
READY_TIMEOUT_S, ANSWER_TIMEOUT_S, POLL_S = 600, 600, 0.05
NAME = "bench"  # what clients call the model
DATA, DONE = b"data: ", b"[DONE]"


class Server:
    """A Player: a server in a process of its own, at a free port of this machine, and a client in this one.

    command  starts it; {port} stands for the port
    ready    a path that answers 200 once it serves
    about    how it computes, besides that it is asked over HTTP
    settings  of its environment, besides those of ours
    """

    def __init__(
        self, command: Sequence[str], ready: str, about: str = "", settings: Mapping[str, str] | None = None
    ) -> None:
        self.about = ", ".join(filter(None, ("over HTTP", about)))
        port = free_port()
        self._base = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [part.format(port=port) for part in command],
            cwd=ROOT,
            env=os.environ | (settings or {}),
            stdout=sys.stderr,
        )
        self._tree = Tree(self._process.pid)
        self._await(self._base + ready)

    def run(self, load: Load) -> Run:
        self._tree.reset_peak()
        worked = self._tree.worked()
        try:
            told = asyncio.run(asyncio.wait_for(asked(self._base, load), ANSWER_TIMEOUT_S))
        except (OSError, TimeoutError, Lost) as error:
            raise Lost(f"{type(error).__name__}: {error} ({self._state()})") from None
        worked = self._tree.worked() - worked
        seconds = max(answer.stamps[-1] for answer in told)
        tokens = sum(answer.tokens for answer in told)
        return Run(seconds, [answer.stamps for answer in told], tokens, worked, self._tree.peak_mb())

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _state(self) -> str:
        """Whether it lives; one that has just failed is given a moment to end."""
        try:
            return f"ended with code {self._process.wait(timeout=2)}"
        except subprocess.TimeoutExpired:
            return "still running"

    def _await(self, url: str) -> None:
        end = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < end and self._process.poll() is None:
            try:
                urllib.request.urlopen(url, timeout=2).close()
                return
            except OSError:
                time.sleep(POLL_S)
        state = self._state()
        self.stop()
        raise Lost(f"did not become ready within {READY_TIMEOUT_S} s: {state}")


@dataclass(slots=True)
class Told:
    """One streamed answer: when each piece of text came, and the tokens in all of them."""

    stamps: list[float]
    tokens: int = 0


def ours(terms: Terms) -> Server:
    """Hearth, with its settings as they come."""
    command = [sys.executable, str(ROOT / "main.py"), "--model", str(folder(terms.model))]
    command += ["--port", "{port}", "--served-names", NAME, "--log-level", "warning"]
    command += ["--dtype", terms.dtype, "--device", terms.device, "--threads", str(terms.threads)]
    command += [] if terms.seat == AUTO else ["--seat", terms.seat]
    command += [] if terms.quantise == NONE else ["--quantise", terms.quantise]
    return Server(command, "/health/ready")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def asked(base: str, load: Load) -> list[Told]:
    began = time.perf_counter()
    return list(await asyncio.gather(*(streamed(base, request, began) for request in load)))


async def streamed(base: str, request: Request, began: float) -> Told:
    url = urllib.parse.urlsplit(base)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(post("/v1/completions", url.netloc, body(request)))
    told = Told([])
    async for line in reader:
        if line.startswith(DATA) and DONE not in line:
            take(told, json.loads(line.removeprefix(DATA)), time.perf_counter() - began)
    writer.close()
    if told.tokens != request.tokens:
        raise Lost(f"answered with {told.tokens} tokens, asked for {request.tokens}")
    told.stamps = told.stamps or [time.perf_counter() - began]  # tokens that show no text
    return told


def take(told: Told, chunk: dict, at: float) -> None:
    if any(choice.get("text") for choice in chunk.get("choices", ())):
        told.stamps.append(at)
    if usage := chunk.get("usage"):
        told.tokens = usage["completion_tokens"]


def body(request: Request) -> dict[str, object]:
    return {
        "model": NAME,
        "prompt": list(request.ids),
        "max_tokens": request.tokens,
        "temperature": request.temperature,
        "top_k": request.top_k,
        "top_p": request.top_p,
        "seed": request.seed,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def post(path: str, host: str, content: dict[str, object]) -> bytes:
    sent = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n"
    return head.encode() + sent
