"""vLLM's routes for models of other kinds than text generators: each says that the served model is none."""

from functools import partial
from typing import NoReturn

from flask import Blueprint

from api.openai.errors import unsupported
from api.openai.operations import ABSENT
from api.operation import described

APIS = {
    "/pooling": "Pooling",
    "/classify": "Classification",
    "/score": "Score",
    "/v1/score": "Score",
    "/rerank": "Rerank (Score)",
    "/v1/rerank": "Rerank (Score)",
    "/v2/rerank": "Rerank (Score)",
    "/v1/audio/transcriptions": "Transcriptions",
    "/v1/audio/translations": "Translations",
}


def install(blueprint: Blueprint) -> None:
    for path, api in APIS.items():
        view = described(partial(refuse, api), ABSENT)
        blueprint.add_url_rule(path, path, view, methods=["POST"])


def refuse(api: str) -> NoReturn:
    raise unsupported(api)
