"""Coding agents as they are installed: how to start each of them for one turn against a server.

They come from npm (@openai/codex, opencode-ai, @qwen-code/qwen-code) and are not installed by the tests.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PROMPT = "Say hi with a tool."
CONTEXT, MAX_TOKENS = 65536, 1000

CODEX_SETTINGS = """
model_provider = "hearth"
model_context_window = {context}

[model_providers.hearth]
name = "Hearth"
base_url = "{url}/v1"
wire_api = "responses"
"""


@dataclass(frozen=True)
class Agent:
    """An agent's command.

    prepare  writes the settings into the home folder; returns further environment variables
    shell    the agent's tool that executes a command, and the parameter that has it
    """

    command: tuple[str, ...]
    prepare: Callable[[Path, str, str], dict[str, str]]
    shell: tuple[str, str]

    @property
    def is_installed(self) -> bool:
        return shutil.which(self.command[0]) is not None

    def run(self, folder: Path, url: str, model: str) -> str:
        """The output of one turn in the empty folder. Fails if the agent reports an error."""
        home, project = folder / "home", folder / "project"
        for each in (home, project):
            each.mkdir()
        variables = self.prepare(home, url, model)
        done = subprocess.run(
            [argument.format(model=model) for argument in self.command] + [PROMPT],
            cwd=project,
            env={**os.environ, "HOME": str(home), **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def prepare_codex(home: Path, url: str, model: str) -> dict[str, str]:
    (home / "config.toml").write_text(CODEX_SETTINGS.format(url=url, context=CONTEXT))
    return {"CODEX_HOME": str(home)}


def prepare_opencode(home: Path, url: str, model: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Hearth",
        "options": {"baseURL": f"{url}/v1"},
        "models": {model: {"name": model, "limit": {"context": CONTEXT, "output": MAX_TOKENS}}},
    }
    name = f"hearth/{model}"
    settings = {"model": name, "small_model": name, "share": "disabled", "provider": {"hearth": provider}}
    file = home / "opencode.json"
    file.write_text(json.dumps(settings))
    return {
        "OPENCODE_CONFIG": str(file),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
    }


def prepare_qwen_code(home: Path, url: str, model: str) -> dict[str, str]:
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "none",
        "OPENAI_MODEL": model,
        "QWEN_CODE_MAX_OUTPUT_TOKENS": str(MAX_TOKENS),
    }


CODEX_COMMAND = ("codex", "exec", "-m", "{model}", "--skip-git-repo-check", "--sandbox", "danger-full-access")
AGENTS = {
    "codex": Agent(CODEX_COMMAND, prepare_codex, ("exec_command", "cmd")),
    "opencode": Agent(("opencode", "run"), prepare_opencode, ("bash", "command")),
    "qwen": Agent(
        ("qwen", "--auth-type", "openai", "--yolo", "-p"),
        prepare_qwen_code,
        ("run_shell_command", "command"),
    ),
}
