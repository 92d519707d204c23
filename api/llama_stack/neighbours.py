"""What clients can call beside inference and this server does not do: each answers 501 and says so.

Other unknown paths are nobody's, and get the app's 404.
"""

from collections.abc import Callable
from typing import NoReturn

from flask import Blueprint

from api.llama_stack.answers import ErrorBody
from api.llama_stack.generation import Generation
from api.operation import Operation, described
from inference.errors import NotImplementedHere

ABSENT = {
    "/post training/<path:rest>": "this server does not train models",
}


def install(blueprint: Blueprint, generation: Generation) -> None:
    for path, why in ABSENT.items():
        view = described(_refusal(why), Operation(f"Answers 501: {why}", answer=None, error=ErrorBody))
        blueprint.add_url_rule(generation.path(path), path, view, methods=["GET", "POST"])


def _refusal(why: str) -> Callable[..., NoReturn]:
    def refuse(rest: str = "") -> NoReturn:
        raise NotImplementedHere(f"Not implemented: {why}")

    return refuse
