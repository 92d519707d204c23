"""OpenAI's Responses API.

Entry points: create_response, count_input_tokens; stored_routes.py has the routes of stored responses.
"""

from dataclasses import replace
from functools import partial

from flask import Response

from api.errors import json_response
from api.hooks.concurrency_limit import acquire_permit, hand_over_permit
from api.openai.reply import fingerprint
from api.openai.requests.parse import chat_request, read_request
from api.openai.responses.background import BackgroundRun, check_background, current_runs
from api.openai.responses.connection import current_exchange
from api.openai.responses.context import ResponseContext, resolve_context
from api.openai.responses.errors import named_as_in_responses, rename_field
from api.openai.responses.parse import to_chat_request
from api.openai.responses.protocol import InputTokensResponse, ResponsesRequest
from api.openai.responses.recording import Recorder
from api.openai.responses.tools import callable_tools
from api.openai.responses.writer import NAMED_EVENTS, ResponseWriter
from api.response import respond
from api.reworded_stream import RewordedStream
from api.store.access import current_store, request_owner
from api.store.recorded_stream import RecordedStream
from inference.backend import Stream
from inference.models import Models
from settings.groups import ServerSettings


@named_as_in_responses()
def create_response(models: Models, settings: ServerSettings) -> Response:
    exchange = current_exchange()
    body = exchange.prepare(read_request(ResponsesRequest, strict=True))
    served = models.resolve(body.model)
    is_stored = current_store() is not None and body.store is not False
    check_background(body, is_stored)
    context = resolve_context(body)
    tools = callable_tools(context.body)
    chat = to_chat_request(context.body, tools)
    generation_request = replace(
        chat_request(chat, served.card.info, settings, "input"), reject_if_too_long=False
    )
    make_writer = partial(
        ResponseWriter,
        body,
        served.card.name,
        fingerprint(settings),
        tools,
        generation_request.logprobs,
        is_stored=is_stored,
        is_warm_up=exchange.is_warm_up,
        error_before_start=exchange.error_before_start,
    )
    writer = make_writer()
    make_equal_writer = partial(make_writer, id=writer.id, created=writer.created, end_time=writer.end_time)
    recorder = _recorder(context, writer, make_equal_writer)
    acquire_permit()
    stream: Stream = RewordedStream(exchange.generate(served, generation_request), rename_field)
    if body.background:
        assert recorder is not None  # check_background
        run = BackgroundRun(stream, writer, recorder, hand_over_permit(), current_runs())
        return json_response(200, run.start())
    if recorder:
        stream = RecordedStream(stream, 1, recorder.save, writer.mark_unstored)
    response = respond(stream, writer, NAMED_EVENTS if body.stream else None)
    exchange.remember(response, writer, context.all_items)
    return response


def _recorder(
    context: ResponseContext, writer: ResponseWriter, make_writer: partial[ResponseWriter]
) -> Recorder | None:
    """The recorder of the response; None if neither it nor its items are stored."""
    store = current_store()
    if store is None or not (writer.is_stored or context.conversation_id):
        return None
    items = context.stored_new_items()
    return Recorder(store, request_owner(), context, writer.is_stored, items, make_writer)


@named_as_in_responses()
def count_input_tokens(models: Models, settings: ServerSettings) -> Response:
    """The number of tokens that the same body's response would report as its input."""
    body = read_request(ResponsesRequest, strict=True)
    served = models.resolve(body.model)
    full_body = resolve_context(body).body
    chat = to_chat_request(full_body, callable_tools(full_body))
    tokenized = served.backend.tokenize(chat_request(chat, served.card.info, settings, "input"))
    return json_response(200, InputTokensResponse(len(tokenized.token_spans)))
