"""Kills, stops and drains replicas under load: every answer must be the one of an undisturbed run.

    python -m scripts.robustness.killed_replicas [--kills 300] [--stops 0] [--drains 0] [--minutes 20]
        [--model 0.5b] [--tokens 600]

Judges what it has seen after at most --minutes from its start, and a little for the answers that run then.

A front has the replicas as members of one model. Clients stream greedy answers and sampled ones with seeds
through it. At random moments, while another replica takes requests, a random one is killed, as by kill -9,
and started again; stopped for some seconds, as by SIGSTOP; or ended by SIGTERM, after which it drains, and
started again. A pause of more than a second is told with the time since the latest disturbance.
"""

import argparse
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import count
from typing import Any

from scripts.bench.models import SHAPES, model_folder
from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.replicas import DEMO, SHORT_TIMEOUTS, Replicas, serving_front
from scripts.robustness.server import JSON_TYPE, Server

NUM_CLIENTS = 4
MAX_PAUSE_S = 1.0  # between the moment that two replicas take requests and a disturbance
MAX_RETURN_S, POLL_S = 300.0, 0.2
MAX_GAP_S, SHOWN_GAP_S = 3.0, 1.0
DISTURBANCES: Mapping[str, Callable[[Replicas, int], None]] = {
    "kills": Replicas.kill,
    "stops": Replicas.stop,
    "drains": Replicas.drain,
}
QUESTIONS = ("Tell me a story about a fox.", "What is the capital of France?")
SAMPLINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0},
    {"temperature": 1.0, "seed": 7},
    {"temperature": 0.8, "seed": 0, "top_p": 0.9, "repetition_penalty": 1.1},
)
PROMPTS: tuple[dict[str, Any], ...] = tuple(
    {
        "prompt": question,
        "ignore_eos": True,
        "stream": True,
        "return_token_ids": True,
        **sampling,
    }
    for question in QUESTIONS
    for sampling in SAMPLINGS
)


@dataclass(slots=True)
class StreamedAnswer:
    """A stream as a client saw it. Two are equal if their tokens, texts and ends are.

    finish_reason  if the stream broke off: "broken", with the error if there is one
    gap_s          the longest pause between two lines, in seconds; gap_at: when it ended, as time.monotonic
    """

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str = "broken"
    gap_s: float = field(default=0.0, compare=False)
    gap_at: float = field(default=0.0, compare=False)

    def note_gap(self, gap_s: float, now: float) -> None:
        if gap_s > self.gap_s:
            self.gap_s, self.gap_at = gap_s, now

    def add(self, line: bytes) -> None:
        """Add a line of the response."""
        document = line.removeprefix(b"data: ").strip()
        if b'"error"' in document:
            self.finish_reason = f"broken: {document.decode()}"
        elif document.startswith(b"{"):
            for choice in json.loads(document)["choices"]:
                self.text += choice["text"]
                self.token_ids += choice.get("token_ids") or ()
                self.finish_reason = choice["finish_reason"] or self.finish_reason


@dataclass(slots=True)
class Tally:
    """What came of the answers.

    num_resumed   times that an answer went on at another replica
    num_tokens    of all answers
    num_wrong     tokens that are missing, too many, or others than those of the undisturbed run
    differing     answers whose tokens, texts or ends are not those of the undisturbed run
    disturbed_at  when the latest disturbance began, as time.monotonic
    """

    num_answers: int = 0
    num_resumed: int = 0
    num_tokens: int = 0
    num_wrong: int = 0
    differing: list[StreamedAnswer] = field(default_factory=list)
    gap_s: float = 0.0
    disturbed_at: float = 0.0

    def add(self, streamed: StreamedAnswer, expected: StreamedAnswer) -> None:
        self.num_answers += 1
        self.num_tokens += len(streamed.token_ids)
        self.num_wrong += count_differing(streamed.token_ids, expected.token_ids)
        self.gap_s = max(self.gap_s, streamed.gap_s)
        if streamed.gap_s > SHOWN_GAP_S:
            ago_s = streamed.gap_at - self.disturbed_at
            print(
                f"pause of {streamed.gap_s:.2f} s, which ended {ago_s:.2f} s after a disturbance", flush=True
            )
        if streamed != expected:
            self.differing.append(streamed)
            print(f"differs: {streamed.finish_reason} after {len(streamed.token_ids)} tokens", flush=True)


def count_differing(token_ids: Sequence[int], expected: Sequence[int]) -> int:
    """Tokens from the first place on at which the sequences differ."""
    num_equal = next(
        (i for i, pair in enumerate(zip(token_ids, expected, strict=False)) if pair[0] != pair[1]),
        min(len(token_ids), len(expected)),
    )
    return max(len(token_ids), len(expected)) - num_equal


def read_answer(front: Server, body: Mapping[str, Any]) -> StreamedAnswer:
    connection, streamed = front.connect(), StreamedAnswer()
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), JSON_TYPE)
        last_at = 0.0
        for line in connection.getresponse():
            now = time.monotonic()
            streamed.note_gap(now - (last_at or now), now)
            last_at = now
            streamed.add(line)
    except (OSError, HTTPException):
        pass
    finally:
        connection.close()
    return streamed


@contextmanager
def clients(front: Server, bodies: Sequence[Mapping[str, Any]]) -> Iterator[Tally]:
    """Clients that ask one question after the other until the block ends."""
    tally, numbers, over = Tally(), count(), threading.Event()
    expected = [read_answer(front, body) for body in bodies]

    def read_answers() -> None:
        while not over.is_set():
            number = next(numbers) % len(bodies)
            tally.add(read_answer(front, bodies[number]), expected[number])

    threads = [threading.Thread(target=read_answers) for _ in range(NUM_CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield tally
    finally:
        over.set()
        for thread in threads:
            thread.join()


def run(
    model: str, num_replicas: int, names: Sequence[str], minutes: float, num_tokens: int
) -> tuple[Counter[str], Tally]:
    """Disturb replicas under load in these ways. Returns how often, and what came of the answers.

    num_tokens: of each answer
    """
    end = time.monotonic() + 60 * minutes
    replicas, num_done = Replicas(num_replicas, model), Counter[str]()
    bodies = [{"model": model, "max_tokens": num_tokens, **prompt} for prompt in PROMPTS]
    try:
        replicas.wait_until_ready()
        timeouts = SHORT_TIMEOUTS if "stops" in names else {}
        with serving_front(replicas.ports, model, timeouts) as front, clients(front, bodies) as tally:
            for name in names:
                ports = wait_for_members(front, replicas, model, end)
                if not ports:
                    break
                time.sleep(random.uniform(0, MAX_PAUSE_S))
                tally.disturbed_at = time.monotonic()
                DISTURBANCES[name](replicas, random.choice(ports))
                num_done[name] += 1
                progress = f"{num_done.total()} of {len(names)}: {name}, {tally.num_answers} answers"
                print(f"{progress}, longest pause {tally.gap_s:.2f} s", flush=True)
            tally.num_resumed = round(front.metric("hearth_upstream_retries_total", 'reason="resume"'))
    finally:
        replicas.close()
    return num_done, tally


def wait_for_members(front: Server, replicas: Replicas, model: str, end: float) -> list[int]:
    """Wait until at least two replicas take requests. Returns the ports of those that do; none at `end`."""
    return_end = time.monotonic() + MAX_RETURN_S
    while time.monotonic() < end:
        if (
            len(ports := [port for port in replicas.ports if takes_requests(port, front, replicas, model)])
            >= 2
        ):
            return ports
        assert time.monotonic() < return_end, "the replicas do not return"
        time.sleep(POLL_S)
    return []


def takes_requests(port: int, front: Server, replicas: Replicas, model: str) -> bool:
    member = f'member="{model}-{1 + replicas.ports.index(port)}"'
    return replicas.is_ready(port) and not front.metric("hearth_upstream_breaker_open", member)


def figures_of(num_planned: Counter[str], num_done: Counter[str], tally: Tally) -> list[JudgedFigure]:
    num_differing = len(tally.differing)
    return [
        *(
            JudgedFigure(name, f"{num_done[name]}", f"{number}", num_done[name] >= number or None)
            for name, number in num_planned.items()
            if number
        ),
        JudgedFigure(
            "answers; times that one went on at another replica",
            f"{tally.num_answers}; {tally.num_resumed}",
            "some",
            tally.num_answers > 0,
        ),
        JudgedFigure("answers that differ or broke off", f"{num_differing}", "0", not num_differing),
        JudgedFigure(
            f"tokens of {tally.num_tokens:,} lost, doubled or others",
            f"{tally.num_wrong}",
            "0",
            not tally.num_wrong,
        ),
        JudgedFigure(
            "longest pause", f"{tally.gap_s:.2f} s", f"{MAX_GAP_S:.0f} s", tally.gap_s <= MAX_GAP_S or None
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--stops", type=int, default=0)
    parser.add_argument("--drains", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--model", default=DEMO, help="a folder, or a shape of scripts.bench: random weights")
    parser.add_argument("--tokens", type=int, default=600, help="of each answer")
    options = parser.parse_args()
    num_planned = Counter({name: getattr(options, name) for name in DISTURBANCES})
    names = list(num_planned.elements())
    random.shuffle(names)
    model = str(model_folder(options.model)) if options.model in SHAPES else options.model
    num_done, tally = run(model, options.replicas, names, options.minutes, options.tokens)
    figures = figures_of(num_planned, num_done, tally)
    print_table("Replicas killed, stopped and drained under load", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
