"""A server whose replicas Ray places on two simulated nodes: killed replicas and nodes, scaling, draining.

Skipped where Ray is not installed. The answers under load are those of an undisturbed run, token for token.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import psutil
import pytest
import requests

from scripts.loopback import free_port
from scripts.robustness.killed_replicas import StreamedAnswer, read_answer
from scripts.robustness.server import Server
from tests.servers.serving import ROOT, wait_until_ready

pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

OBJECT_STORE_BYTES = 100 << 20
CORES_OF_A_NODE = 3
# main.py with times of seconds, in which the number of replicas follows the load.
PROGRAM = """
import sys
from inference.replicas import cluster
cluster.SCALE_UP_AFTER_S, cluster.SCALE_DOWN_AFTER_S = 2.0, 5.0
cluster.AVERAGE_S, cluster.REPORT_INTERVAL_S = 3.0, 1.0
import main
sys.exit(main.main(sys.argv[1:]))
"""
FLAGS = (
    "--replicas=1..3",
    "--threads=1",
    "--max-sequences=4",
    "--kv-memory-gb=0.1",
    "--tuning-dir=off",
    "--responses-store=off",
    "--drain-seconds=60",
)
BODIES: list[dict[str, Any]] = [
    {
        "model": "models/demo",
        "prompt": "Tell me a story about a fox.",
        "max_tokens": 200,
        "ignore_eos": True,
        "stream": True,
        **sampling,
    }
    for sampling in ({"temperature": 0}, {"temperature": 1.0, "seed": 7}, {"temperature": 0.8, "seed": 0})
]


@dataclass
class Load:
    """Clients that stream answers one after another. expected: of each of BODIES."""

    expected: list[StreamedAnswer]
    streamed: list[tuple[int, StreamedAnswer]] = field(default_factory=list)

    @property
    def lost(self) -> list[StreamedAnswer]:
        """The answers that are not those of an undisturbed run."""
        return [each for number, each in self.streamed if not is_same(each, self.expected[number])]


@dataclass
class Front:
    """The server in front of the replicas, and the processes of the cluster below this one."""

    server: Server
    cluster: Any
    expected: list[StreamedAnswer]

    @property
    def members(self) -> set[str]:
        """The replicas that get requests."""
        text = requests.get(f"http://127.0.0.1:{self.server.port}/metrics", timeout=60).text
        lines = [line for line in text.splitlines() if line.startswith("hearth_upstream_breaker_open{")]
        return {line.partition('member="')[2].partition('"')[0] for line in lines}

    @property
    def replicas(self) -> list[psutil.Process]:
        """The servers' processes. The parent of each is its actor, whose parent is the node's raylet."""
        return [each for each in psutil.Process().children(recursive=True) if is_replica(each)]

    @contextmanager
    def under_load(self, num_clients: int) -> Iterator[Load]:
        load, numbers, has_ended = Load(self.expected), count(), threading.Event()

        def read_answers() -> None:
            while not has_ended.is_set():
                number = next(numbers) % len(BODIES)
                load.streamed.append((number, read_answer(self.server, BODIES[number])))

        clients = [threading.Thread(target=read_answers) for _ in range(num_clients)]
        for client in clients:
            client.start()
        yield load
        has_ended.set()
        for client in clients:
            client.join()


def is_same(streamed: StreamedAnswer, expected: StreamedAnswer) -> bool:
    return (streamed.text, streamed.finish_reason) == (expected.text, expected.finish_reason)


def is_replica(process: psutil.Process) -> bool:
    try:
        return any(argument.endswith("serve_model.py") for argument in process.cmdline())
    except psutil.Error:
        return False


@pytest.fixture(scope="module")
def no_usage_stats() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        yield


@pytest.fixture(scope="module")
def front(no_usage_stats: None) -> Iterator[Front]:
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "object_store_memory": OBJECT_STORE_BYTES, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        cluster.add_node(num_cpus=CORES_OF_A_NODE, object_store_memory=OBJECT_STORE_BYTES)
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, f"--port={port}", *FLAGS],
        cwd=ROOT,
        env={**os.environ, "RAY_ADDRESS": cluster.address, "HF_HUB_OFFLINE": "1"},
    )
    try:
        wait_until_ready(f"http://127.0.0.1:{port}", process)
        server = Server(port, process)
        yield Front(server, cluster, [read_answer(server, body) for body in BODIES])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        cluster.shutdown()


def wait_for(is_true: Callable[[], bool], timeout_s: float = 120) -> float:
    """Seconds until it is true."""
    start = time.monotonic()
    while not is_true():
        assert time.monotonic() < start + timeout_s, "it does not happen"
        time.sleep(0.1)
    return time.monotonic() - start


def report(text: str, load: Load) -> None:
    """Shown with -s."""
    gap_s = max(each.gap_s for _, each in load.streamed)
    print(f"{text}; {len(load.streamed)} answers, {len(load.lost)} lost, longest gap {gap_s:.2f} s")


def test_replicas_are_added_under_load(front: Front) -> None:
    assert len(front.members) == 1
    with front.under_load(12) as load:
        seconds = wait_for(lambda: len(front.members) == 3)
    report(f"1 to 3 replicas in {seconds:.1f} s", load)
    assert load.streamed and not load.lost


def test_the_answers_of_a_killed_replica_go_on_and_it_is_replaced(front: Front) -> None:
    with front.under_load(12) as load:
        wait_for(lambda: len(front.members) == 3 and len(front.replicas) == 3)
        before, members = front.replicas, front.members
        before[0].parent().kill()
        seconds = wait_for(lambda: bool(front.members - members))
    report(f"an actor killed, replaced in {seconds:.1f} s", load)
    assert not load.lost and before[0] not in front.replicas


def test_the_answers_of_a_killed_node_go_on_and_its_replicas_are_replaced(front: Front) -> None:
    with front.under_load(12) as load:
        wait_for(lambda: len(front.members) == 3 and len(front.replicas) == 3)
        members = front.members
        raylets = {replica.parents()[1].pid for replica in front.replicas}
        node = next(each for each in front.cluster.worker_nodes if raylet_of(each) in raylets)
        front.cluster.remove_node(node, allow_graceful=False)
        seconds = wait_for(lambda: len(front.members - members) > 0 and len(front.members) == 3)
    report(f"a node killed, three replicas again in {seconds:.1f} s", load)
    assert not load.lost


def test_replicas_leave_with_the_load_after_their_answers(front: Front) -> None:
    with front.under_load(2) as load:
        seconds = wait_for(lambda: len(front.members) == 1 and len(front.replicas) == 1)
    report(f"3 to 1 replicas in {seconds:.1f} s", load)
    assert not load.lost


def test_the_replicas_end_with_the_front(front: Front) -> None:
    with front.under_load(1) as load:
        time.sleep(0.5)
        front.server.process.send_signal(signal.SIGTERM)
    assert load.streamed and not load.lost
    front.server.process.wait(timeout=60)
    wait_for(lambda: not front.replicas)


def raylet_of(node: Any) -> int:
    (raylet,) = node.all_processes["raylet"]
    return int(raylet.process.pid)
