"""Measures a server, started as a user starts it, with streamed completions over HTTP.

The protocol is OpenAI's, with token ids as the prompt and vLLM's `ignore_eos`. Other servers support it, too.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.bench.engine_under_test import EngineFailed
from scripts.bench.load import Load, Request, Run
from scripts.bench.models import model_folder
from scripts.bench.options import AUTO, NONE, BenchOptions
from scripts.bench.process_tree import ProcessTree
from scripts.loopback import HOST, free_port, wait_until_ready

ROOT = Path(__file__).resolve().parents[2]
READY_TIMEOUT_S, ANSWER_TIMEOUT_S = 600, 600
MODEL_NAME = "bench"  # the served name of the model
DATA, DONE = b"data: ", b"[DONE]"
MAX_ERROR_CHARS = 500  # of a server's error response


class ServerEngine:
    """An EngineUnderTest: a server in a child process on a free port, and its client in this process.

    command      starts the server; {port} is replaced by the port
    ready_path   responds with success once the server is ready
    description  a few words on how the server computes
    environment  environment variables to add
    folder       the working directory of the child process
    """

    def __init__(
        self,
        command: Sequence[str],
        ready_path: str,
        description: str = "",
        environment: Mapping[str, str] | None = None,
        folder: Path = ROOT,
    ) -> None:
        self.description = ", ".join(filter(None, ("over HTTP", description)))
        port = free_port()
        self._base = f"http://{HOST}:{port}"
        self._process = subprocess.Popen(
            [argument.format(port=port) for argument in command],
            cwd=folder,
            env=os.environ | (environment or {}),
            stdout=sys.stderr,
        )
        self._tree = ProcessTree(self._process.pid)
        if not wait_until_ready(self._base + ready_path, self._process, READY_TIMEOUT_S):
            state = self._state()
            self.stop()
            raise EngineFailed(f"did not become ready within {READY_TIMEOUT_S} s: {state}")

    def run(self, load: Load) -> Run:
        self._tree.reset_peak()
        cpu_s = self._tree.cpu_s()
        try:
            streams = asyncio.run(asyncio.wait_for(complete_all(self._base, load), ANSWER_TIMEOUT_S))
        except (OSError, TimeoutError, EngineFailed) as error:
            raise EngineFailed(f"{type(error).__name__}: {error} ({self._state()})") from None
        cpu_s = self._tree.cpu_s() - cpu_s
        seconds = max(stream.token_times[-1] for stream in streams)
        num_tokens = sum(stream.num_tokens for stream in streams)
        return Run(
            seconds, [stream.token_times for stream in streams], num_tokens, cpu_s, self._tree.peak_mb()
        )

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _state(self) -> str:
        """Whether the process still runs, for a message. Waits up to 2 s for it to end."""
        try:
            return f"ended with code {self._process.wait(timeout=2)}"
        except subprocess.TimeoutExpired:
            return "still running"


@dataclass(slots=True)
class TokenStream:
    """One streamed answer. token_times: seconds from the start of the load to each chunk with text."""

    token_times: list[float]
    num_tokens: int = 0


def start_hearth(options: BenchOptions, checkout: Path = ROOT) -> ServerEngine:
    """Start the server of this checkout or another one, with default settings except those in `options`."""
    command = [sys.executable, "main.py", "--model", str(model_folder(options.model).resolve())]
    command += ["--port", "{port}", "--served-names", MODEL_NAME, "--log-level", "warning"]
    command += ["--dtype", options.dtype, "--device", options.device, "--threads", str(options.threads)]
    command += [] if options.runner == AUTO else ["--runner", options.runner]
    command += [] if options.quantize == NONE else ["--quantize", options.quantize]
    return ServerEngine(command, "/health/ready", folder=checkout)


async def complete_all(base: str, load: Load) -> list[TokenStream]:
    """Send all requests at once to the server at the URL `base`. Raises EngineFailed or OSError."""
    start_s = time.perf_counter()
    return list(await asyncio.gather(*(complete(base, request, start_s) for request in load)))


async def complete(base: str, request: Request, start_s: float) -> TokenStream:
    url = urllib.parse.urlsplit(base)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(post_request("/v1/completions", url.netloc, request_body(request)))
    status_line = await reader.readline()
    if b" 200 " not in status_line:
        _, _, content = (await reader.read()).partition(b"\r\n\r\n")
        raise EngineFailed(
            f"{status_line.decode().strip()}: {content.decode(errors='replace')[:MAX_ERROR_CHARS]}"
        )
    stream = TokenStream([])
    async for line in reader:
        if line.startswith(DATA) and DONE not in line:
            record_chunk(stream, json.loads(line.removeprefix(DATA)), time.perf_counter() - start_s)
    writer.close()
    if stream.num_tokens != request.num_tokens:
        raise EngineFailed(f"answered with {stream.num_tokens} tokens instead of {request.num_tokens}")
    stream.token_times = stream.token_times or [time.perf_counter() - start_s]  # if no token had text
    return stream


def record_chunk(stream: TokenStream, chunk: dict, time_s: float) -> None:
    if any(choice.get("text") for choice in chunk.get("choices", ())):
        stream.token_times.append(time_s)
    if usage := chunk.get("usage"):
        stream.num_tokens = usage["completion_tokens"]


def request_body(request: Request) -> dict[str, object]:
    return {
        "model": MODEL_NAME,
        "prompt": list(request.ids),
        "max_tokens": request.num_tokens,
        "temperature": request.temperature,
        "top_k": request.top_k,
        "top_p": request.top_p,
        "seed": request.seed,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def post_request(path: str, host: str, content: dict[str, object]) -> bytes:
    content_bytes = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(content_bytes)}\r\n\r\n"
    return head.encode() + content_bytes
