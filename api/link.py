"""The routes by which another process of this project uses the model: requests and answers without a dialect.

Only a process that another server has started, its parent, has them: that of a model on demand, or a
replica. The status is always 200, and errors are messages, as inference/link_messages.py has them. The parent
has taken a permit of the request.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, request

from api.adapters import require_adapters
from api.body.large_json import WHOLE_BODY
from api.management.sleep_mode import reclaimable_bytes, sleeper
from api.openapi.operation import Operation, attach_operation
from api.response import Framing, respond
from inference.backend import Backend
from inference.errors import BadRequest, ServerError
from inference.events import Embedded, Embedding, Event
from inference.link_messages import (
    DETOKENIZE_DECODER,
    INPUTS_DECODER,
    LOAD_ADAPTER_DECODER,
    MALFORMED,
    MEDIA_TYPE,
    RESULT,
    TEXT_DECODER,
    TEXTS_DECODER,
    decode_request,
    error_frame,
    event_frame,
    frame,
)
from inference.models import Models
from inference.served import adapter_cards
from settings.groups import ServerSettings

MAX_BODY_BYTES = 1 << 30  # the parent's limits are the users'
FRAMING = Framing(MEDIA_TYPE, lambda value: value, in_band=True)

Views = dict[str, Callable[[], Response]]  # by the last segment of their path


class EventWriter:
    """Passes every event on. An error is a message too."""

    def chunk(self, event: Event) -> list[bytes]:
        return [event_frame(event)]

    def full_response(self) -> Any:
        raise AssertionError("the link is always streamed")

    def error_before_start(self, error: ServerError) -> tuple[int, Any]:
        return 200, error_frame(error)

    def error_in_stream(self, error: ServerError) -> list[bytes]:
        return [error_frame(error)]


class VectorsWriter(EventWriter):
    """One result at the end: the vectors in the order of the inputs."""

    def __init__(self, num_inputs: int) -> None:
        self._num_inputs = num_inputs
        self._embeddings: dict[int, Embedding] = {}

    def chunk(self, event: Event) -> list[bytes]:
        if isinstance(event, Embedded):
            self._embeddings[event.index] = event.embedding
        if len(self._embeddings) < self._num_inputs:
            return []
        return [frame(RESULT, [self._embeddings[index] for index in range(self._num_inputs)])]


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("link", __name__)
    backend = models.default.backend

    def generate() -> Response:
        generation_request = read(decode_request)
        return respond(backend.generate(generation_request), EventWriter(), FRAMING, generation_request.n)

    def embed() -> Response:
        inputs = read(INPUTS_DECODER.decode)
        return respond(backend.embed(inputs), VectorsWriter(len(inputs)), FRAMING, len(inputs))

    def detokenize() -> Response:
        message = read(DETOKENIZE_DECODER.decode)
        return result(backend.detokenize(message.token_ids, message.show_special))

    views: Views = {
        "generate": generate,
        "embed": embed,
        "tokenize": lambda: result(backend.tokenize(read(decode_request))),
        "encode_texts": lambda: result(backend.encode_texts(read(TEXTS_DECODER.decode))),
        "detokenize": detokenize,
        "tokenizer_config": lambda: result(dict(backend.tokenizer_config())),
        "info": lambda: result(backend.info()),
        "load": lambda: result(backend.current_load()),
        **adapter_views(backend),
        **sleep_views(),
    }
    for name, view in views.items():
        operation = Operation(f"Link: {name}", media_type=MEDIA_TYPE, body_limit=MAX_BODY_BYTES)
        blueprint.add_url_rule(f"/link/{name}", name, attach_operation(view, operation), methods=["POST"])
    blueprint.register_error_handler(ServerError, in_band_error)
    return blueprint


def adapter_views(backend: Backend) -> Views:
    """The methods of Adapters."""

    def load() -> Response:
        message, adapters = read(LOAD_ADAPTER_DECODER.decode), require_adapters(backend)
        folder = Path(message.folder)
        return result(adapters.load(message.name, folder, message.source, replace=message.replace))

    def unload() -> Response:
        require_adapters(backend).unload(name := read(TEXT_DECODER.decode))
        return result(name)

    def folder_of() -> Response:
        return result(str(require_adapters(backend).folder_of(read(TEXT_DECODER.decode))))

    return {
        "adapters": lambda: result(adapter_cards(backend)),
        "adapter_folder": folder_of,
        "load_adapter": load,
        "unload_adapter": unload,
    }


def sleep_views() -> Views:
    """How a parent lets the model sleep as deeply as it can, once its running answers have ended."""

    def sleep() -> Response:
        sleeper().sleep(sleeper().deepest_level, "wait")
        return result(sleeper().is_sleeping)

    return {
        "sleep": sleep,
        "wake_up": lambda: result(sleeper().wake_up()),
        "reclaimable_bytes": lambda: result(reclaimable_bytes()),
    }


def read(decode: Callable[[bytes], Any]) -> Any:
    """The body as a message. Raises BadRequest."""
    try:
        return decode(request.get_data(cache=False))
    except MALFORMED as error:
        raise BadRequest(WHOLE_BODY, f"is no message of the link: {error}") from None


def result(value: Any) -> Response:
    return Response(frame(RESULT, value), content_type=MEDIA_TYPE)


def in_band_error(error: ServerError) -> Response:
    return Response(error_frame(error), content_type=MEDIA_TYPE)
