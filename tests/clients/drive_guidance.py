"""Calls a server with guidance's models for vLLM and SGLang, and prints what the programs captured as JSON.

Runs in its own environment: python drive_guidance.py URL MODEL. It knows only the client; tests check what it
prints.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import guidance
from guidance import gen, select
from guidance import json as gen_json
from guidance.models.experimental import VLLMModel
from guidance.models.experimental._sglang import SglangModel

SCHEMA = {
    "type": "object",
    "properties": {"capital": {"type": "string", "maxLength": 10}},
    "required": ["capital"],
}
PROGRAMS: dict[str, Callable[[], Any]] = {
    "regex": lambda: gen("text", regex="[ab]{3}"),
    "choice": lambda: select(["yes", "no"], name="text"),
    "schema": lambda: gen_json(name="text", schema=SCHEMA),
    "mixed": lambda: "The answer is " + select(["yes", "no"], name="text") + gen("digits", regex=" [0-9]{2}"),
}


def main(url: str, model: str) -> None:
    models = {"vllm": VLLMModel, "sglang": SglangModel}
    captured = {
        f"{server} {name}": run(model_class(model, base_url=url, api_key="none", echo=False), program)
        for server, model_class in models.items()
        for name, program in PROGRAMS.items()
    }
    print(json.dumps(captured))


def run(model: Any, program: Callable[[], Any]) -> dict[str, str | None]:
    with guidance.user():
        model += "Give me a JSON object with the capital of France."
    with guidance.assistant():
        model += program()
    return {name: model.get(name) for name in ("text", "digits")}


if __name__ == "__main__":
    main(*sys.argv[1:])
