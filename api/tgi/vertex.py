"""The route for Vertex AI: several prompts or conversations in one request, answered with texts."""

from dataclasses import replace
from typing import Any, TypeVar

from flask import Response

from api.body import json_body
from api.merged_stream import submit_all
from api.openai.protocol.chat import ChatCompletionRequest
from api.openai.requests.messages import sent_tools
from api.openai.requests.parse import chat_request
from api.response import respond
from api.tgi.errors import InvalidInput, JsonDataError, begins_with_field, error_before_start, error_in_stream
from api.tgi.parse import ServedRequest, read_request, to_served_request
from api.tgi.protocol import GenerateParameters, GenerateRequest, VertexRequest, VertexResponse
from api.tgi.routes import GenerateRoutes
from inference.errors import BadRequest
from inference.events import Event, Finished, Token

T = TypeVar("T")


class VertexWriter:
    """A Writer of the texts of all answers, in the order of their prompts."""

    error_before_start = staticmethod(error_before_start)
    error_in_stream = staticmethod(error_in_stream)

    def __init__(self, num_answers: int) -> None:
        self.texts = [""] * num_answers

    def chunk(self, event: Event) -> list[Any]:
        if isinstance(event, Token | Finished):
            self.texts[event.index] += event.text
        return []

    def full_response(self) -> VertexResponse:
        return VertexResponse(self.texts)


def predict(routes: GenerateRoutes) -> Response:
    instances = read_request(VertexRequest).instances
    if not instances:
        raise InvalidInput("`instances` cannot be empty")
    if len(instances) > (limit := routes.settings.max_client_batch_size):
        raise InvalidInput(f"`instances` must have at most {limit}. Given: {len(instances)}")
    requests = [_served_request(instance, f"instances[{i}]", routes) for i, instance in enumerate(instances)]
    return respond(submit_all(routes.submit, requests), VertexWriter(len(requests)), None, len(requests))


def _served_request(instance: dict[str, Any], field: str, routes: GenerateRoutes) -> ServedRequest:
    """A request for one answer. /generate's body is sampled unless it sets do_sample to false."""
    default, settings = routes.models.default, routes.settings
    if "inputs" not in instance and "messages" in instance:
        chat = _to_struct(instance, ChatCompletionRequest, field)
        try:
            request = chat_request(chat, default.card.info, settings, sent_tools=sent_tools(instance))
        except BadRequest as error:
            raise _with_field_of_instance(error, field) from None
        return ServedRequest(default, replace(request, n=1, separate_reasoning=False))
    body = _to_struct(instance, GenerateRequest, field)
    parameters = body.parameters = body.parameters or GenerateParameters()
    parameters.do_sample, parameters.best_of = parameters.do_sample is not False, None
    return to_served_request(body, settings, routes.models, is_streamed=False)


def _to_struct(instance: dict[str, Any], struct_type: type[T], field: str) -> T:
    try:
        return json_body.to_struct(instance, struct_type)
    except BadRequest as error:
        raise JsonDataError(_with_field_of_instance(error, field)) from None


def _with_field_of_instance(error: BadRequest, field: str) -> BadRequest:
    """The error with the path of its field from the root of the body: instances[0].temperature."""
    if begins_with_field(error):
        return BadRequest(f"{field}.{error.field}", error.message.removeprefix(error.field).lstrip())
    return BadRequest(field, f"is not valid: {error.message}")
