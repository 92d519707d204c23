"""README.md and docs/ show what a server on models/demo prints today, and name every operations route."""

import re
import subprocess
from pathlib import Path

import pytest
import requests

from tests.servers.serving import ServerProcess

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
OPERATIONS = ROOT / "docs/operations.md"
EXAMPLE = re.compile(r"\$ (curl .*?)\n((?:.*\n)*?)(?=\n\$|```)")
HERE = "http://127.0.0.1:8000"


def find_examples(path: Path) -> list[tuple[str, str]]:
    """Each command on a page, and what the page shows as its output."""
    return EXAMPLE.findall(path.read_text())


EXAMPLES = [
    pytest.param(command, expected, id=f"{path.stem}: {command[:60]}")
    for path in [README, *sorted((ROOT / "docs").rglob("*.md"))]
    for command, expected in find_examples(path)
]


@pytest.mark.system("posix")
@pytest.mark.slow
@pytest.mark.parametrize(("command", "expected"), EXAMPLES)
def test_a_command_prints_what_the_docs_show(server: ServerProcess, command: str, expected: str) -> None:
    printed = subprocess.run(
        ["bash", "-c", command.replace(HERE, server.url)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert printed.strip() == expected.strip()


@pytest.mark.slow
def test_the_docs_name_every_operations_route(server: ServerProcess) -> None:
    own = requests.get(server.url, timeout=60).json()["routes"]["ops"]
    described = OPERATIONS.read_text()
    assert own and [route for route in own if f"`{route}`" not in described] == []


def test_the_readme_calls_each_dialect_and_every_page_of_a_dialect_has_examples() -> None:
    commands = [command for command, _ in find_examples(README)]
    assert len(commands) >= 4
    for path in ("/v1/chat/completions", "/inference/chat_completion", "/generate"):
        assert any(path in command for command in commands)
    for page in ("openai", "llama_stack", "tgi", "neodim"):
        assert len(find_examples(ROOT / f"docs/dialects/{page}.md")) >= 3
