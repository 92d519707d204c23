"""TGI's routes that generate from one prompt, its tokenizer routes, and the Operations of all its routes.

Knows what each route accepts and returns. parse.py converts bodies, writers.py builds responses.
"""

from dataclasses import dataclass, replace

from flask import Response

from api.body import json_body
from api.errors import json_response
from api.hooks.concurrency_limit import acquire_permit
from api.openai.protocol.chat import ChatCompletionRequest
from api.openai.requests.messages import sent_tools
from api.openai.requests.parse import chat_request
from api.openapi.operation import Operation
from api.response import SSE, respond
from api.reworded_stream import RewordedStream
from api.tgi.errors import error_in_stream
from api.tgi.info_routes import compute_type, includes_prompt
from api.tgi.last_token_stream import LastTokenStream
from api.tgi.parse import ServedRequest, choose_served, read_request, response_options, to_served_request
from api.tgi.protocol import (
    ChatTokenizeResponse,
    CompatGenerateRequest,
    GenerateRequest,
    GenerateResponse,
    InfoResponse,
    SimpleToken,
    TgiErrorResponse,
    TgiTokenizeRequest,
    VertexRequest,
    VertexResponse,
)
from api.tgi.request_timer import RequestTimer
from api.tgi.validation import reword_error
from api.tgi.writers import GenerateStreamWriter, GenerateWriter, simple_tokens
from inference.backend import Backend, Stream
from inference.errors import ServerError
from inference.models import Models
from inference.types import GenerationRequest
from settings.groups import ServerSettings

FRAMING = replace(SSE, in_band=True)
EVENT_STREAM = (SSE.mimetype,)
IN_BAND_NOTE = """Each event is a token. The last event also has the text and, if requested, the details.
Errors are events too, with `error` and `error_type`; the status is 200."""

GENERATE = Operation(
    "Continue a text", "", GenerateRequest, GenerateResponse, error=TgiErrorResponse, takes_permit=True
)
GENERATE_STREAM = Operation(
    "Continue a text, token by token",
    IN_BAND_NOTE,
    GenerateRequest,
    None,
    EVENT_STREAM,
    error=TgiErrorResponse,
)
COMPAT_GENERATE = Operation(
    "Continue a text; `stream` in the body selects a stream",
    f"The text begins with the prompt unless return_full_text is false. With `stream`: {IN_BAND_NOTE}",
    CompatGenerateRequest,
    list[GenerateResponse],
    EVENT_STREAM,
    error=TgiErrorResponse,
)
VERTEX = Operation(
    "Continue several texts or conversations",
    "",
    VertexRequest,
    VertexResponse,
    error=TgiErrorResponse,
    takes_permit=True,
)
TOKENIZE = Operation("Tokenize a text", "", TgiTokenizeRequest, list[SimpleToken], error=TgiErrorResponse)
CHAT_TOKENIZE = Operation(
    "Apply the chat template to a conversation and tokenize it",
    "",
    ChatCompletionRequest,
    ChatTokenizeResponse,
    error=TgiErrorResponse,
)
INFO = Operation(
    "Show a served model and the limits of requests",
    response=InfoResponse,
    query={"model": "its name; left out: the default model"},
    error=TgiErrorResponse,
)


@dataclass(frozen=True, slots=True)
class GenerateRoutes:
    models: Models
    settings: ServerSettings

    def generate(self) -> Response:
        return self._respond_full(read_request(GenerateRequest))

    def generate_stream(self) -> Response:
        return self._respond_streamed(read_request(GenerateRequest))

    def compat_generate(self) -> Response:
        """POST /: `stream` in the body selects a stream. An unstreamed response is in a list."""
        body = read_request(CompatGenerateRequest)
        include_prompt = includes_prompt((choose_served(body, self.models) or self.models.default).card.info)
        return (
            self._respond_streamed(body, include_prompt)
            if body.stream
            else self._respond_full(body, include_prompt, as_list=True)
        )

    def submit(self, served_request: ServedRequest) -> Stream:
        """Submit to the backend. Raises ServerError with TGI's message."""
        acquire_permit()
        served = served_request.served

        def reword(error: ServerError) -> ServerError:
            return reword_error(error, served_request.request, served.card.info.context)

        try:
            stream = served.generate(served_request.request)
        except ServerError as error:
            raise reword(error) from error
        return RewordedStream(stream, reword)

    def _respond_full(
        self, body: GenerateRequest, include_prompt: bool = False, as_list: bool = False
    ) -> Response:
        timer = self._start_timer(body)
        served_request = self._served_request(body, is_streamed=False)
        stream = self.submit(served_request)
        timer.mark_validated()
        writer = GenerateWriter(
            response_options(body, self.settings, include_prompt=include_prompt), served_request.n, as_list
        )
        return respond(stream, writer, None, served_request.n, lambda: timer.full_headers(writer.best))

    def _respond_streamed(self, body: GenerateRequest, include_prompt: bool = False) -> Response:
        """Errors after the body was read are sent as events of the stream."""
        timer = self._start_timer(body)
        try:
            stream = self.submit(self._served_request(body, is_streamed=True))
        except ServerError as error:
            return in_band_error(error, timer)
        writer = GenerateStreamWriter(response_options(body, self.settings, include_prompt=include_prompt))
        return respond(LastTokenStream(stream), writer, FRAMING, headers=timer.stream_headers)

    def _start_timer(self, body: GenerateRequest) -> RequestTimer:
        return RequestTimer(compute_type(self.models.default.card.info), body.inputs)

    def _served_request(self, body: GenerateRequest, *, is_streamed: bool) -> ServedRequest:
        return to_served_request(body, self.settings, self.models, is_streamed=is_streamed)


def in_band_error(error: ServerError, timer: RequestTimer) -> Response:
    """A stream whose only event is the error."""
    body = b"".join(map(FRAMING.encode, error_in_stream(error)))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **timer.stream_headers()}
    return Response(body, 200, headers, content_type=FRAMING.mimetype)


def tokenize_text(backend: Backend) -> Response:
    body = read_request(TgiTokenizeRequest)
    tokenized = backend.tokenize(GenerationRequest(body.inputs, add_special_tokens=body.add_special_tokens))
    return json_response(200, simple_tokens(tokenized))


def tokenize_chat(backend: Backend, settings: ServerSettings) -> Response:
    """The body is that of /v1/chat/completions."""
    body = read_request(ChatCompletionRequest)
    generation_request = chat_request(body, backend.info(), settings, sent_tools=sent_tools(json_body.read()))
    tokenized = backend.tokenize(generation_request)
    return json_response(200, ChatTokenizeResponse(simple_tokens(tokenized), tokenized.text))
