"""The README shows what a server on models/demo prints today, and names every route of its own."""

import re
import subprocess
from pathlib import Path

import pytest
import requests

from tests.serving import Server

README = (Path(__file__).parents[2] / "README.md").read_text()
EXAMPLES = re.findall(r"\$ (curl .*?)\n((?:.*\n)*?)(?=\n\$|```)", README)
HERE = "http://127.0.0.1:8000"


@pytest.mark.slow
@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[command[:60] for command, _ in EXAMPLES])
def test_a_command_prints_what_the_readme_shows(server: Server, command: str, shown: str) -> None:
    printed = subprocess.run(
        ["bash", "-c", command.replace(HERE, server.url)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert printed.strip() == shown.strip()


@pytest.mark.slow
def test_the_readme_names_every_route_of_the_servers_own(server: Server) -> None:
    own = requests.get(server.url, timeout=5).json()["routes"]["ops"]
    assert [route for route in own if route.split()[1] not in README] == []
    assert len(EXAMPLES) >= 4
