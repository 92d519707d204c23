"""Coding agents finish a turn with calls of their own tools; Codex also those that are not functions.

Each agent that is not on PATH is skipped.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inference.events import CallDelta, Finished, Started
from inference.types import GenerationRequest
from settings.groups import ServerSettings
from tests.clients.agents import AGENTS, Agent
from tests.clients.conftest import running
from tests.fakes.fake_backend import FakeBackend, Script, say

pytestmark = pytest.mark.slow

Call = tuple[str, dict[str, Any]]
FINAL_TEXT = "All done."
CUSTOM_TOOLS_MODEL = "gpt-5.5"  # Codex offers its custom tools to the models that it knows
PATCH = '*** Begin Patch\n*** Add File: hello.txt\n+héllo 😀 "x"\n*** End Patch\n'


def call(name: str, arguments: str) -> Script:
    """A call in pieces of seven characters."""
    texts = [arguments[i : i + 7] for i in range(0, len(arguments), 7)]
    deltas = [CallDelta(0, 0, "c", name, text, i == len(texts) - 1) for i, text in enumerate(texts)]
    return [Started(0, 3, 0), *deltas, Finished(0, "stop", num_tokens=len(texts))]


def calls_then_answer(calls: list[Call]) -> Callable[[GenerationRequest], Script]:
    """One call for each request with tools, then the answer. Agents ask for titles without tools."""
    waiting = list(calls)

    def script(request: GenerationRequest) -> Script:
        if not request.tools or not waiting:
            return say(*FINAL_TEXT)
        name, arguments = waiting.pop(0)
        assert name in {tool.name for tool in request.tools}
        return call(name, json.dumps(arguments))

    return script


def turn(agent: Agent, folder: Path, model: str, *calls: Call) -> tuple[str, list[str]]:
    """What the agent prints, and the outputs of its tools as the model gets them in the last request."""
    if not agent.is_installed:
        pytest.skip(f"needs {agent.command[0]} on PATH")
    backend = FakeBackend(calls_then_answer(list(calls)))
    with running(backend, ServerSettings(), model) as url:
        printed = agent.run(folder, url, model)
    last = max(backend.requests, key=lambda request: len(request.prompt))
    outputs = [message.content for message in last.prompt if message.role == "tool"]  # type: ignore[union-attr]
    return printed, [str(output) for output in outputs]


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_an_agent_executes_a_call_and_reads_the_answer(agent: Agent, tmp_path: Path) -> None:
    tool, parameter = agent.shell
    arguments = {parameter: "echo said-by-the-$((40 + 2))", "description": "Say hi", "is_background": False}
    printed, (output,) = turn(agent, tmp_path, "demo", (tool, arguments))
    assert "said-by-the-42" in output
    assert FINAL_TEXT in printed


def test_codex_reads_the_call_of_a_custom_tool(tmp_path: Path) -> None:
    patch = ("apply_patch", {"input": PATCH})
    printed, (output,) = turn(AGENTS["codex"], tmp_path, CUSTOM_TOOLS_MODEL, patch)
    assert "Success" in output and FINAL_TEXT in printed
    assert (tmp_path / "project/hello.txt").read_text() == 'héllo 😀 "x"\n'


def test_codex_reads_the_call_of_a_namespaces_tool(tmp_path: Path) -> None:
    spawn = ("multi_agent_v1__spawn_agent", {"message": "say hello"})
    printed, (output,) = turn(AGENTS["codex"], tmp_path, "demo", spawn)
    assert "agent_id" in output and FINAL_TEXT in printed
