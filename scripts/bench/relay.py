"""Measures the CPU time that relaying an answer of another server takes, per chunk and as a whole.

    python -m scripts.bench.relay [--streams 16] [--seconds 10] [--rate 50]

An upstream in this process sends `streams` answers at a time, each with `rate` chunks a second. A server with
this one remote model relays them to a client in this process. Only the server's own CPU time is counted: wall
time says little on a busy machine.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.bench.process_tree import ProcessTree
from scripts.loopback import HOST, free_port, wait_until_ready

ROOT = Path(__file__).resolve().parents[2]
READY_TIMEOUT_S = 120
CHUNK = b'data: {"id":"c","object":"chat.completion.chunk","model":"up","choices":[{"index":0,%s}]}\n\n'
TOKEN = CHUNK % b'"delta":{"content":" word"},"finish_reason":null'
END = CHUNK % b'"delta":{},"finish_reason":"stop"' + b"data: [DONE]\n\n"
MODELS = b'{"object":"list","data":[{"id":"up","object":"model"}]}'
HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: "
REQUEST = json.dumps({"model": "up", "stream": True, "messages": [{"role": "user", "content": "hi"}]})


async def upstream(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, num_chunks: int, rate: float
) -> None:
    """Answer one request of OpenAI's API: the list of models, or a chat of num_chunks chunks."""
    head = await reader.readuntil(b"\r\n\r\n")
    if head.startswith(b"GET"):
        writer.write(HEAD + b"application/json\r\n\r\n" + MODELS)
    else:
        writer.write(HEAD + b"text/event-stream\r\n\r\n")
        for _ in range(num_chunks):
            writer.write(TOKEN)
            await asyncio.sleep(1 / rate)
        writer.write(END)
    await writer.drain()
    writer.close()


async def read_stream(port: int) -> int:
    """The number of chunks with text in one streamed chat."""
    reader, writer = await asyncio.open_connection(HOST, port)
    lines = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(REQUEST)}\r\nConnection: close\r\n\r\n{REQUEST}"
    )
    writer.write(lines.encode())
    body = await reader.read()
    writer.close()
    assert b"[DONE]" in body, body[:300]
    return body.count(b'" word"')


async def measure(port: int, tree: ProcessTree, streams: int) -> tuple[int, float]:
    """(chunks that arrived, CPU seconds of the server) of `streams` answers at a time."""
    cpu_s = tree.cpu_s()
    counts = await asyncio.gather(*(read_stream(port) for _ in range(streams)))
    return sum(counts), tree.cpu_s() - cpu_s


async def run(streams: int, seconds: float, rate: float) -> None:
    num_chunks = round(seconds * rate)
    server = await asyncio.start_server(
        lambda reader, writer: upstream(reader, writer, num_chunks, rate), HOST, 0
    )
    upstream_port, port = server.sockets[0].getsockname()[1], free_port()
    with tempfile.TemporaryDirectory() as caches:
        process = start_server(f"openai_chat:None:http://{HOST}:{upstream_port}/v1", port, caches)
        try:
            url = f"http://{HOST}:{port}/health/ready"
            is_ready = await asyncio.to_thread(wait_until_ready, url, process, READY_TIMEOUT_S)
            assert is_ready, "the server did not become ready"
            tree = ProcessTree(process.pid)
            await measure(port, tree, streams)  # warms up
            total, cpu_s = await measure(port, tree, streams)
        finally:
            process.terminate()
            process.wait(60)
    print(f"{streams} streams, {total} chunks: {cpu_s / total * 1e6:.0f} µs of CPU a chunk")


def start_server(upstream_server: str, port: int, caches: str) -> subprocess.Popen[bytes]:
    flags = ["--inference-server", upstream_server, "--model-name", "up", "--port", str(port)]
    quiet = ["--log-level", "warning", "--responses-store", "off"]
    environment = os.environ | {"XDG_CACHE_HOME": caches, "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen([sys.executable, "main.py", *flags, *quiet], cwd=ROOT, env=environment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=float, default=50, help="chunks a second of each stream")
    args = parser.parse_args()
    asyncio.run(run(args.streams, args.seconds, args.rate))


if __name__ == "__main__":
    main()
