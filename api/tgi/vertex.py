"""Vertex AI's way to ask: several prompts or conversations at once, for nothing but their texts."""

from dataclasses import replace
from typing import Any

from flask import Response

from api import body
from api.joined import together
from api.openai.bodies import ChatBody
from api.openai.requests import chat
from api.stream import answer
from api.tgi.bodies import GenerateBody, Parameters, VertexBody
from api.tgi.errors import Invalid, Misshapen, broken, failed
from api.tgi.inference import Inference
from api.tgi.requests import generation, read
from api.tgi.shapes import Predictions
from inference.errors import BadRequest
from inference.types import Event, Finished, GenerationRequest, Token


class TextsWriter:
    """The texts of all answers, in the order of their prompts."""

    failed = staticmethod(failed)
    broken = staticmethod(broken)

    def __init__(self, answers: int) -> None:
        self.texts = [""] * answers

    def chunk(self, event: Event) -> list[Any]:
        if isinstance(event, Token | Finished):
            self.texts[event.index] += event.text
        return []

    def whole(self) -> Predictions:
        return Predictions(self.texts)


def predict(inference: Inference) -> Response:
    instances = read(VertexBody).instances
    if not instances:
        raise Invalid("`instances` cannot be empty")
    if len(instances) > (most := inference.settings.max_client_batch):
        raise Invalid(f"`instances` must have at most {most}. Given: {len(instances)}")
    asked = [_request(instance, f"instances[{i}]", inference) for i, instance in enumerate(instances)]
    return answer(together(inference.submit, asked), TextsWriter(len(asked)), None, len(asked))


def _request(instance: dict[str, Any], field: str, inference: Inference) -> GenerationRequest:
    """Of each one answer, sampled where it does not say otherwise."""
    info, settings = inference.backend.info(), inference.settings
    try:
        if "inputs" not in instance and "messages" in instance:
            return replace(chat(body.shaped(instance, ChatBody), info, settings), n=1)
        asked = body.shaped(instance, GenerateBody)
    except BadRequest as error:
        rule = error.message.removeprefix(error.field).lstrip()
        raise Misshapen(BadRequest(f"{field}.{error.field}".rstrip("."), rule)) from None
    p = asked.parameters = asked.parameters or Parameters()
    p.do_sample, p.best_of = p.do_sample is not False, None
    return generation(asked, settings, info, streams=False)
