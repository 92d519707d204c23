"""Under a limit of the address space a start ends in one sentence, or the server serves: nothing between."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import requests

from scripts.loopback import free_port
from tests.servers.main_process import OURS, ROOT, TIMEOUT_S, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.system("linux"),  # others do not limit the address space
]


def limited(kilobytes: int, *arguments: str) -> list[str]:
    """The command line of a server of the demo model under ulimit -v."""
    command = f'ulimit -v {kilobytes}; exec "$0" main.py --model models/demo --host 127.0.0.1 "$@"'
    return ["bash", "-c", command, sys.executable, *arguments]


@contextmanager
def serving_under(kilobytes: int) -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen(
        limited(kilobytes, f"--port={port}"), text=True, stdout=subprocess.PIPE, env=OURS, cwd=ROOT
    )
    try:
        wait_for(process, f"http://127.0.0.1:{port}", "")
        yield f"http://127.0.0.1:{port}"
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("kilobytes", "sentence"),
    [(600_000, "not enough memory to import the libraries"), (1_300_000, "free under ulimit -v, 1.3 GB")],
)
def test_a_start_without_enough_memory_ends_in_a_sentence(kilobytes: int, sentence: str) -> None:
    process = subprocess.run(
        limited(kilobytes, f"--port={free_port()}"),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=OURS,
        cwd=ROOT,
    )
    output = process.stdout + process.stderr
    assert process.returncode == 1 and sentence in output
    assert "Traceback" not in output


def test_a_server_that_starts_answers_all_requests() -> None:
    body = {"model": "demo", "max_tokens": 24, "messages": [{"role": "user", "content": "Hi " * 20}]}

    def status(url: str) -> int:
        return requests.post(f"{url}/v1/chat/completions", json=body, timeout=TIMEOUT_S).status_code

    with serving_under(1_700_000) as url, ThreadPoolExecutor(64) as clients:
        assert set(clients.map(status, [url] * 100)) == {200}
