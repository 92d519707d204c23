"""The Neodim dialect: one route, POST /generate, compatible with the last release of the Neodim Server.

Entry points: `views`, `error_before_start` and `allow_origin`, which path_dispatch.py calls because TGI has
the same path.
"""

from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial

from flask import Response, request

from api.body.json_body import read_struct
from api.hooks.concurrency_limit import acquire_permit
from api.hooks.cors import preflight_headers
from api.neodim.errors import error_before_start
from api.neodim.gpu_report import GpuSampler
from api.neodim.lockstep_stream import EmptyStream, LockstepStream
from api.neodim.parse import choose_served, make_stop_trackers, parse_request
from api.neodim.penalized_texts import PenalizedTexts
from api.neodim.prompt import PlainTokenizer
from api.neodim.protocol import NeodimErrorResponse, NeodimRequest, Report
from api.neodim.writer import ReportWriter
from api.openapi.operation import Operation, attach_operation
from api.response import NDJSON, View, respond
from inference.backend import Stream
from inference.models import Models
from settings.groups import ServerSettings

PATH = "/generate"
CORS_METHODS = "POST, OPTIONS"
PATTERN_THREADS = 2
GENERATE = Operation(
    "Continue a prompt, and report which part of it was used",
    "With `stream`, the server sends a JSON line for each token, then the report.",
    body=NeodimRequest,
    response=Report,
    stream=(NDJSON.mimetype,),
    error=NeodimErrorResponse,
)

__all__ = ["allow_origin", "error_before_start", "views"]


def views(models: Models, settings: ServerSettings) -> dict[str, View]:
    """The default model answers requests that name no adapter."""
    executor = ThreadPoolExecutor(PATTERN_THREADS, thread_name_prefix="stop-patterns")
    return {PATH: attach_operation(partial(generate, models, settings, executor), GENERATE)}


def allow_origin(response: Response) -> Response:
    """On PATH, allow the request's Origin, and in a preflight the requested headers.

    path_dispatch.py calls it for answers in this dialect's form, and for preflights: Neodim's playground is a
    local file, and its origin is "null". The page may not send cookies or other credentials of the browser.
    """
    origin = request.headers.get("Origin")
    if not origin or request.path.rstrip("/") != PATH:
        return response
    response.vary.add("Origin")
    response.headers["Access-Control-Allow-Origin"] = origin
    if request.method == "OPTIONS":
        response.headers.update(preflight_headers(CORS_METHODS))
    return response


def generate(models: Models, settings: ServerSettings, executor: Executor) -> Response:
    body = read_struct(NeodimRequest, strict=False)
    served = choose_served(body, models)
    gpus = GpuSampler(lambda: served.backend.current_load().devices)
    tokenizer = PlainTokenizer(served.backend)
    request = parse_request(body, tokenizer, served.backend, settings)
    trackers = make_stop_trackers(body)
    penalized = PenalizedTexts(request.window, tokenizer, request.num_sequences)
    stream: Stream = EmptyStream(request.num_sequences)
    if request.max_tokens:
        acquire_permit()
        is_slow = body.stop_strings_type == "regex" or request.window is not None
        generated = served.generate(request.generation_request)
        stream = LockstepStream(generated, trackers, penalized.record, executor if is_slow else None)
    writer = ReportWriter(request, penalized, trackers, gpus)
    return respond(stream, writer, NDJSON if body.stream else None, request.num_sequences)
