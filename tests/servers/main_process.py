"""main.py as a process: its environment, a free port, and the wait until it answers."""

import os
import subprocess
import time
from pathlib import Path

import requests

from settings.sources import KNOWN_NAMES
from tests.servers.forked_main import ForkedMain

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120
OURS = {name: value for name, value in os.environ.items() if name not in KNOWN_NAMES}


def wait_for(process: subprocess.Popen | ForkedMain, url: str, certificate: str = "") -> None:
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        assert process.poll() is None, "the server has ended"
        try:
            if requests.get(f"{url}/health", timeout=TIMEOUT_S, verify=certificate or None).ok:
                return
        except requests.ConnectionError:
            time.sleep(0.1)
    raise AssertionError("the server does not get ready")
