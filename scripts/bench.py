"""How fast is it? Our server over HTTP beside transformers' own generate, on one model, in one run.

    python scripts/bench.py                        the demo model at 1, 8 and 32 clients
    python scripts/bench.py --model FOLDER --rounds 5 --clients 1 16
    python scripts/bench.py --speculate 8          our server with and without drafts, side by side

Below the table: what a long system prompt costs when it comes for the first time, and when it comes again.
Each round runs both, one after the other, with the same prompts, greedy, in the same dtype; the table shows
the medians over the rounds. transformers computes each load as one padded batch, without a server.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PORT = int(os.environ.get("BENCH_PORT", "8917"))
READY_TIMEOUT_S = 300
SETTLE_S = 1.0  # between runs: the threads of the one before still spin for a while
MODEL_ALIAS = "bench"
WORDS = ("red", "green", "blue", "one", "two", "three", "day", "night", "sun", "moon", "tree", "river")


@dataclass(frozen=True)
class Run:
    """One load, once: when each answer's tokens came, in seconds after the load began."""

    stamps: list[list[float]]

    @property
    def tokens(self) -> int:
        return sum(map(len, self.stamps))

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / max(stamps[-1] for stamps in self.stamps)

    @property
    def first_token_ms(self) -> float:
        return 1e3 * statistics.median(stamps[0] for stamps in self.stamps)

    @property
    def gap_ms(self) -> float:
        return 1e3 * statistics.median(self.gaps)

    @property
    def gap_p99_ms(self) -> float:
        return 1e3 * sorted(self.gaps)[int(0.99 * len(self.gaps))]

    @property
    def gaps(self) -> list[float]:
        return [b - a for stamps in self.stamps for a, b in itertools.pairwise(stamps)]


def main() -> None:
    options = parse()
    if options.speculate:
        report_drafts(drafts(options), options)
        return
    prompts = [f"Count from {k % 9 + 1} to {90 + k % 10}." for k in range(max(options.clients))]
    results: dict[tuple[str, int], list[Run]] = {}
    with server(options) as base:
        peers = {"hearth": partial(over_http, base, options), "generate": generate_with(options)}
        print("measuring prefix reuse", file=sys.stderr)
        reuse = [first_and_again(base, options, number) for number in range(options.rounds)]
        for run in peers.values():
            run(prompts[:2])
        for number in range(options.rounds):
            for clients in options.clients:
                for name, run in peers.items():
                    print(f"round {number + 1}/{options.rounds}: {clients} × {name}", file=sys.stderr)
                    time.sleep(SETTLE_S)
                    results.setdefault((name, clients), []).append(run(prompts[:clients]))
    report(results, options)
    report_reuse(reuse, options)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=str(ROOT / "models" / "demo"), help="a model folder")
    parser.add_argument("--dtype", default="float32", help="for both sides (default float32)")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--tokens", type=int, default=128, help="at most, per answer")
    parser.add_argument("--prefix", type=int, default=300, help="words in the long system prompt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--speculate", type=int, default=0, help="compare with drafts of so many tokens")
    parser.add_argument("--json", help="also write the medians here")
    return parser.parse_args()


# Ours --------------------------------------------------------------------------------------------------


@contextmanager
def server(options: argparse.Namespace, *flags: str, port: int = PORT) -> Iterator[str]:
    """The server as a user starts it, in a process of its own; yields its base URL."""
    command = [sys.executable, str(ROOT / "main.py"), "--model", options.model, "--port", str(port)]
    command += ["--dtype", options.dtype, "--log-level", "warning", "--served-names", MODEL_ALIAS, *flags]
    process = subprocess.Popen(command, cwd=ROOT)
    base = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(base, process)
        yield base
    finally:
        process.terminate()
        process.wait(timeout=60)


def wait_until_ready(base: str, process: subprocess.Popen) -> None:
    end = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(f"{base}/health/ready", timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    raise SystemExit(
        f"the server did not become ready within {READY_TIMEOUT_S} s (exit code {process.poll()})"
    )


def over_http(base: str, options: argparse.Namespace, prompts: list[str]) -> Run:
    return asyncio.run(load(base, [[message("user", prompt)] for prompt in prompts], options.tokens))


def first_and_again(base: str, options: argparse.Namespace, number: int) -> tuple[float, float]:
    """Milliseconds to the first token behind a system prompt that is new, and behind the same one again."""
    words = random.Random(number).choices(WORDS, k=options.prefix)
    system = message("system", f"{number} " + " ".join(words))
    first, again = (
        asyncio.run(load(base, [[system, message("user", question)]], 1)).first_token_ms
        for question in ("What is the capital of France?", "What is two plus three?")
    )
    return first, again


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


async def load(base: str, chats: list[list[dict[str, str]]], tokens: int) -> Run:
    start = time.perf_counter()
    return Run(list(await asyncio.gather(*(stream(base, chat, tokens, start) for chat in chats))))


async def stream(base: str, chat: list[dict[str, str]], tokens: int, start: float) -> list[float]:
    """One streamed chat answer; the time of each piece of text, of which a token is at most one."""
    body = json.dumps(
        {
            "model": MODEL_ALIAS,
            "messages": chat,
            "sampling_params": {"strategy": "greedy", "max_tokens": tokens},
            "stream": True,
        }
    )
    url = urllib.parse.urlsplit(base)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    head = f"POST /inference/chat_completion HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write((head + body).encode())
    stamps = []
    async for line in reader:
        if b'"event_type":"progress"' in line:
            stamps.append(time.perf_counter() - start)
    writer.close()
    if not stamps:
        raise SystemExit("the server answered without a token")
    return stamps


# Drafts ------------------------------------------------------------------------------------------------

PHRASE = "red green blue "
# What is asked for: a text that goes on as it began, and one in which nothing comes again.
TEXTS = {
    "repetitive": {"prompt": PHRASE * 30, "temperature": 0},
    "random": {"prompt": PHRASE, "temperature": 2},
}


def drafts(options: argparse.Namespace) -> dict[tuple[str, int, str], list[float]]:
    """Tokens per second by text, clients and server; both servers are up all the time, one is asked."""
    speeds: dict[tuple[str, int, str], list[float]] = {}
    with server(options) as plain, server(options, f"--speculate={options.speculate}", port=PORT + 1) as own:
        for number in range(options.rounds + 1):
            for (text, body), clients in itertools.product(TEXTS.items(), options.clients):
                for name, base in (("without", plain), ("with", own)):
                    time.sleep(SETTLE_S)
                    speed = complete(base, body | {"seed": 100 * number}, clients, options.tokens)
                    if number:  # the first round warms up
                        speeds.setdefault((text, clients, name), []).append(speed)
    return speeds


def complete(base: str, body: dict[str, object], clients: int, tokens: int) -> float:
    """Tokens per second of so many completions at once, each as long as it may be."""
    body = body | {"model": MODEL_ALIAS, "max_tokens": tokens, "ignore_eos": True}

    def ask(client: int) -> int:
        sent = json.dumps(body | {"seed": body["seed"] + client}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{base}/v1/completions", sent, headers)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["usage"]["completion_tokens"]

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        told = sum(pool.map(ask, range(clients)))
    return told / (time.perf_counter() - start)


def report_drafts(speeds: dict[tuple[str, int, str], list[float]], options: argparse.Namespace) -> None:
    print(
        f"{options.model}, {options.dtype}, {options.tokens} tokens, SPECULATE={options.speculate}, ", end=""
    )
    print(f"tokens/s, medians of {options.rounds} rounds")
    columns = ("without", "with", "ratio", "lowest", "highest")
    print(f"{'clients':>7}  {'text':<11}" + "".join(f"{column:>10}" for column in columns))
    for text, clients in itertools.product(TEXTS, options.clients):
        plain, own = speeds[text, clients, "without"], speeds[text, clients, "with"]
        ratios = sorted(b / a for a, b in zip(plain, own, strict=True))
        values = (*map(statistics.median, (plain, own, ratios)), ratios[0], ratios[-1])
        print(f"{clients:>7}  {text:<11}" + "".join(f"{value:>10.2f}" for value in values))


# transformers ------------------------------------------------------------------------------------------


def generate_with(options: argparse.Namespace) -> Callable[[list[str]], Run]:
    """transformers' generate on the same model, as a function from prompts to a Run."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LogitsProcessorList

    tokenizer = AutoTokenizer.from_pretrained(options.model, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=getattr(torch, options.dtype)).eval()
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id

    def run(prompts: list[str]) -> Run:
        start, steps = time.perf_counter(), []

        def stamp(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            steps.append(time.perf_counter() - start)
            return scores

        texts = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
            )
            for prompt in prompts
        ]
        tokenizer.pad_token_id = pad
        inputs = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
        width = inputs["input_ids"].shape[1]
        with torch.inference_mode():
            ids = model.generate(
                **inputs,
                do_sample=False,
                max_new_tokens=options.tokens,
                pad_token_id=pad,
                logits_processor=LogitsProcessorList([stamp]),
            )
        return Run([steps[: answer_length(row, pad, model)] for row in ids[:, width:].tolist()])

    return run


def answer_length(row: list[int], pad: int, model: object) -> int:
    """Tokens of one answer in a padded batch: up to and with its end token."""
    ends = model.generation_config.eos_token_id  # type: ignore[attr-defined]
    ends = set(ends if isinstance(ends, list) else [ends])
    return next((k + 1 for k, token in enumerate(row) if token in ends), len(row))


# The table ---------------------------------------------------------------------------------------------

COLUMNS = {
    "tokens/s": lambda run: run.tokens_per_second,
    "first token ms": lambda run: run.first_token_ms,
    "gap p50 ms": lambda run: run.gap_ms,
    "gap p99 ms": lambda run: run.gap_p99_ms,
}


def report(results: dict[tuple[str, int], list[Run]], options: argparse.Namespace) -> None:
    medians = {
        key: {column: statistics.median(map(value, runs)) for column, value in COLUMNS.items()}
        for key, runs in results.items()
    }
    print(f"{options.model}, {options.dtype}, ≤ {options.tokens} tokens, medians of {options.rounds} rounds")
    print(f"{'clients':>7}  {'':<9}" + "".join(f"{column:>16}" for column in COLUMNS) + f"{'tokens':>10}")
    for (name, clients), row in medians.items():
        tokens = results[name, clients][-1].tokens
        print(
            f"{clients:>7}  {name:<9}"
            + "".join(f"{value:>16.2f}" for value in row.values())
            + f"{tokens:>10}"
        )
    for clients in options.clients:
        ratio = medians["hearth", clients]["tokens/s"] / medians["generate", clients]["tokens/s"]
        print(f"{clients:>7}  hearth ÷ generate: {ratio:.2f} × tokens/s")
    first = medians["hearth", options.clients[0]]["tokens/s"]
    for clients in options.clients[1:]:
        print(
            f"{clients:>7}  hearth against 1: {medians['hearth', clients]['tokens/s'] / first:.2f} × tokens/s"
        )
    if options.json:
        Path(options.json).write_text(
            json.dumps({f"{n}@{c}": row for (n, c), row in medians.items()}, indent=1)
        )


def report_reuse(reuse: list[tuple[float, float]], options: argparse.Namespace) -> None:
    first, again = (statistics.median(column) for column in zip(*reuse, strict=True))
    print(f"a system prompt of {options.prefix} words: first token after {first:.1f} ms, ", end="")
    print(f"the next time after {again:.1f} ms: {first / again:.1f} × sooner")


if __name__ == "__main__":
    main()
