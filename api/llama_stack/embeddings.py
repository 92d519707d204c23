"""The embeddings route of every generation: a vector for each text. How they come about is the backend's."""

from collections.abc import Callable, Sequence

from flask import Blueprint, Response

from api.body import decode
from api.llama_stack.answers import EmbeddingsAnswer, ErrorBody
from api.llama_stack.bodies import EmbeddingsBody
from api.llama_stack.errors import failed
from api.llama_stack.generation import Generation
from api.llama_stack.messages import text
from api.llama_stack.models import check
from api.operation import Operation, described
from api.settings import AppSettings
from api.stream import answer
from api.vectors import VectorsWriter
from inference.backend import Backend
from inference.errors import BadRequest
from inference.types import Embedding

OPERATION = Operation("Vectors of texts", body=EmbeddingsBody, answer=EmbeddingsAnswer, error=ErrorBody)


def install(blueprint: Blueprint, generation: Generation, backend: Backend, settings: AppSettings) -> None:
    view = described(_view(backend, settings), OPERATION)
    blueprint.add_url_rule("/inference/embeddings", "embeddings", view, methods=["POST"])


def _view(backend: Backend, settings: AppSettings) -> Callable[[], Response]:
    def embed() -> Response:
        body = decode(EmbeddingsBody)
        check(body, backend.info(), settings)
        if body.output_dimension is not None:
            raise BadRequest("output_dimension", "cannot be chosen: leave it out", body.output_dimension)
        if not body.contents:
            raise BadRequest("contents", "must hold at least one text")
        texts = [text(content, f"contents[{i}]") for i, content in enumerate(body.contents)]
        return answer(backend.embed(texts), VectorsWriter(_told, failed), None)

    return embed


def _told(found: Sequence[Embedding]) -> EmbeddingsAnswer:
    return EmbeddingsAnswer([each.vector for each in found])
