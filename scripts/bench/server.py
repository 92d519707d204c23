"""The server as a user starts it, asked over HTTP as clients ask it: streamed completions of token ids.

What it speaks is OpenAI's protocol with vLLM's `ignore_eos`, so that other servers can be asked the same way.
"""

import asyncio
import json
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from scripts.bench.load import Load, Request, Run
from scripts.bench.models import folder
from scripts.bench.terms import AUTO, Terms

ROOT = Path(__file__).resolve().parents[2]
READY_TIMEOUT_S = 600
NAME = "bench"  # what clients call the model
DATA, DONE = b"data: ", b"[DONE]"


class Server:
    """A Player: a server in a process of its own, at a free port of this machine, and a client in this one.

    command  starts it; {port} stands for the port
    ready    a path that answers 200 once it serves
    """

    about = "over HTTP"

    def __init__(self, command: Sequence[str], ready: str) -> None:
        port = free_port()
        self._base = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [part.format(port=port) for part in command], cwd=ROOT, stdout=sys.stderr
        )
        self._await(self._base + ready)

    def run(self, load: Load) -> Run:
        worked = self._worked()
        told = asyncio.run(asked(self._base, load))
        worked = self._worked() - worked
        seconds = max(answer.stamps[-1] for answer in told)
        tokens = sum(answer.tokens for answer in told)
        return Run(seconds, [answer.stamps for answer in told], tokens, worked, self._resident_mb())

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)

    def _await(self, url: str) -> None:
        end = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < end and self._process.poll() is None:
            try:
                urllib.request.urlopen(url, timeout=2).close()
                return
            except OSError:
                time.sleep(0.2)
        code = self._process.poll()
        self.stop()
        raise SystemExit(f"a server did not become ready within {READY_TIMEOUT_S} s (exit code {code})")

    def _worked(self) -> float:
        """Seconds of processor time so far."""
        times = [process.cpu_times() for process in self._processes()]
        return sum(time.user + time.system for time in times)

    def _resident_mb(self) -> float:
        """What it holds of this machine's memory; between loads a server gives little back."""
        return sum(process.memory_info().rss for process in self._processes()) / 1e6

    def _processes(self) -> list[psutil.Process]:
        server = psutil.Process(self._process.pid)
        return [server, *server.children(recursive=True)]


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
        raise SystemExit(f"a server answered with {told.tokens} tokens, asked for {request.tokens}")
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
