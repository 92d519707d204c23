"""Patterns, schemas and grammars that take endless time or memory are refused, and disturb no others."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from itertools import pairwise
from string import ascii_lowercase
from typing import Any, NamedTuple

import psutil
import pytest
import requests

from tests.live.hostile import NEODIM, PROMPT, check_response, send
from tests.servers.serving import ServerProcess, serving
from tests.structured_output.costly_schemas import combined_patterns

pytestmark = pytest.mark.slow

MAX_MEMORY = 8 << 30
NUM_CLIENTS = 12
# An attack by work that is checked for a second of CPU time, one after the other, takes that many seconds.
NUM_SLOW_CLIENTS = 2
SLOW = ("schema", "embedded schema")
MAX_TRIES = 5  # other processes of the machine may delay one
# Less than the second of CPU time that a check may take; 0.1 on a machine that does nothing else.
SHORT_S = 0.75
PAUSE_S = 0.2  # between streams, which would take most of the processor
COMPLETE, GENERATE = "/v1/completions", "/generate"


def stop_patterns(*patterns: str) -> dict[str, Any]:
    lengths = {"generated_tokens_count": 60, "max_total_tokens": 300}
    return NEODIM | lengths | {"stop_strings": list(patterns), "stop_strings_type": "regex"}


def lark(*terms: str) -> dict[str, Any]:
    return PROMPT | {"guided_grammar": "start: A\nA: " + " & ".join(terms), "max_tokens": 30}


# name → (path, body, the bound that the refusal names)
ENDLESS: dict[str, tuple[str, dict[str, Any], str]] = {
    "product": (GENERATE, stop_patterns("(?:a{3000}){3000}"), "at most 10000 elements"),
    "nested": (GENERATE, stop_patterns("(" * 90 + "a" + "){1,50}" * 90), "at most 10000 elements"),
    "recursive": (GENERATE, stop_patterns("(?R)?.(?R)"), "too slow to match"),
    "schema": (
        COMPLETE,
        PROMPT | {"guided_json": combined_patterns(20)},
        "is not a usable JSON schema: it takes more than 1 s",
    ),
    "embedded schema": (
        COMPLETE,
        PROMPT | {"guided_grammar": f"start: %json {json.dumps(combined_patterns(24))}"},
        "is not a usable grammar: it takes more than 1 s",
    ),
    "intersection": (
        COMPLETE,
        lark(*(f"/.*{char}.*/" for char in ascii_lowercase + "0123456789!%&=")),
        "is not a usable grammar",
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving("--served-names", "m", "--log-level", "warning") as running:
        psutil.Process(running.process.pid).rlimit(psutil.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        yield running


class Neighbours(NamedTuple):
    """Other clients' waits in seconds: for /health/live, and between two tokens of a stream."""

    health_s: list[float]
    gaps_s: list[float]

    @property
    def longest(self) -> tuple[float, float]:
        return max(self.health_s), max(self.gaps_s)

    @property
    def are_short(self) -> bool:
        return max(self.longest) < SHORT_S

    def are_as_short_as(self, others: "Neighbours") -> bool:
        return all(
            own < max(SHORT_S, 3 * other) for own, other in zip(self.longest, others.longest, strict=True)
        )


@contextmanager
def neighbours(server: ServerProcess) -> Iterator[Neighbours]:
    over, waits = threading.Event(), Neighbours([], [])

    def poll() -> None:
        with requests.Session() as client:
            while not over.is_set():
                started_at = time.monotonic()
                assert client.get(f"{server.url}/health/live", timeout=60).ok
                waits.health_s.append(time.monotonic() - started_at)
                time.sleep(0.02)

    def stream() -> None:
        body = PROMPT | {"max_tokens": 60, "ignore_eos": True, "stream": True, "temperature": 0}
        while not over.is_set() or not waits.gaps_s:
            response = requests.post(f"{server.url}{COMPLETE}", json=body, stream=True, timeout=120)
            times = [time.monotonic() for line in response.iter_lines() if line]
            waits.gaps_s.extend(later - earlier for earlier, later in pairwise(times))
            over.wait(PAUSE_S)

    threads = [threading.Thread(target=client) for client in (poll, stream)]
    for thread in threads:
        thread.start()
    try:
        yield waits
    finally:
        over.set()
        for thread in threads:
            thread.join()


def attack(
    server: ServerProcess, path: str, body: dict[str, Any], num_clients: int
) -> list[requests.Response]:
    responses: list[requests.Response] = []

    def post() -> None:
        responses.append(send(requests, server.url + path, body))

    clients = [threading.Thread(target=post) for _ in range(num_clients)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return responses


def resident_bytes(server: ServerProcess) -> int:
    process = psutil.Process(server.process.pid)
    return sum(each.memory_info().rss for each in (process, *process.children()))


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_work_is_refused_with_its_bound_and_others_go_on(server: ServerProcess, name: str) -> None:
    path, body, bound = ENDLESS[name]
    ordinary_body = stop_patterns(r"\n\n") if path == GENERATE else PROMPT | {"max_tokens": 60}
    num_clients = NUM_SLOW_CLIENTS if name in SLOW else NUM_CLIENTS
    attack(server, path, body, 1 if name in SLOW else num_clients)
    bytes_before = resident_bytes(server)
    for _ in range(MAX_TRIES):
        with neighbours(server) as disturbed:
            responses = attack(server, path, body, num_clients)
        refusals = [response for response in responses if response.status_code != 429]
        if refusals and disturbed.are_short:
            break
        with neighbours(server) as ordinary:
            attack(server, path, ordinary_body, num_clients)
            time.sleep(0.5)
        if refusals and disturbed.are_as_short_as(ordinary):
            break
    else:
        waits = f"others waited: {disturbed.longest}, and beside ordinary requests: {ordinary.longest}"
        pytest.fail(f"{len(refusals)} refused; {waits}")
    for response in refusals:
        check_response(response)
        assert response.status_code == 400 and bound in response.text
    assert resident_bytes(server) < 1.1 * bytes_before


def checks_cpu_s(server: ServerProcess) -> float:
    """CPU seconds of the process that checks grammars; 0 if there is none."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(server.process.pid).children():
            times = child.cpu_times()
            return times.user + times.system
    return 0.0


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


def test_a_compilation_ends_when_its_client_leaves(server: ServerProcess) -> None:
    """Earlier than the second of CPU time that it may take, unless other processes delay the client."""
    assert any(cpu_s_of_abandoned_check(server) < 0.9 for _ in range(MAX_TRIES))


def cpu_s_of_abandoned_check(server: ServerProcess) -> float:
    """CPU seconds of the check of a schema whose client leaves after 0.2 of them."""
    path, body, _ = ENDLESS["schema"]
    before_s, connection = checks_cpu_s(server), HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    wait_until(lambda: checks_cpu_s(server) > before_s + 0.2)
    connection.close()
    seconds = [before_s]
    wait_until(lambda: seconds.append(checks_cpu_s(server)) or not seconds[-1])
    return max(seconds) - before_s


def test_structured_answers_go_on_while_others_are_refused(server: ServerProcess) -> None:
    """A grammar that is known to be quick does not wait for others."""
    known = PROMPT | {"guided_json": {"type": "object", "properties": {"a": {"type": "boolean"}}}}
    assert send(requests, server.url + COMPLETE, known).ok
    assert any(is_answered_during_endless_work(server, known) for _ in range(MAX_TRIES))


def is_answered_during_endless_work(server: ServerProcess, known: dict[str, Any]) -> bool:
    """Whether an answer is there before the refusals of other clients' endless schemas."""
    path, body, _ = ENDLESS["schema"]
    before_s = checks_cpu_s(server)
    hostile = threading.Thread(target=attack, args=(server, path, body, NUM_SLOW_CLIENTS))
    hostile.start()
    wait_until(lambda: checks_cpu_s(server) > before_s)
    assert send(requests, server.url + COMPLETE, known).ok
    is_first = hostile.is_alive()
    hostile.join()
    return is_first
