"""The JSON of the model routes and of the server's status."""

from typing import Literal

from msgspec import Struct

from api.hooks.body_limits import UNUSED_BODY_BYTES
from api.model_card import ModelCard
from api.openai.protocol.errors import ErrorResponse, UnhealthyResponse
from api.openapi.operation import Operation


class ModelList(Struct, kw_only=True):
    object: Literal["list"] = "list"
    data: list[ModelCard]


class LoadResponse(Struct):
    server_load: int


MODELS = Operation("List the names of the served model", response=ModelList, error=ErrorResponse)
MODEL = Operation("Describe the served model", response=ModelCard)  # some unknown names get the app's 404
PING = Operation(
    "Report whether the server is healthy",
    response=None,
    error=UnhealthyResponse,
    body_limit=UNUSED_BODY_BYTES,  # the route needs no key
)
LOAD = Operation("Count the running and waiting requests", response=LoadResponse, error=ErrorResponse)
UNSUPPORTED = Operation(
    "Answers 400: not an API of text generation models", response=None, error=ErrorResponse, refuses=True
)
