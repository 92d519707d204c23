"""TGI's errands of the tokenizer: the tokens of a text, or of a conversation as the model reads it."""

from flask import Response

from api.errors import reply
from api.openai.bodies import ChatBody
from api.openai.requests import chat
from api.settings import AppSettings
from api.tgi import tokens
from api.tgi.bodies import TokenizeBody
from api.tgi.requests import read
from api.tgi.shapes import ChatTokens
from inference.backend import Backend
from inference.types import GenerationRequest


def text(backend: Backend) -> Response:
    body = read(TokenizeBody)
    told = backend.tokenize(GenerationRequest(body.inputs, special=body.add_special_tokens))
    return reply(200, tokens.simple(told))


def conversation(backend: Backend, settings: AppSettings) -> Response:
    """The body is one of /v1/chat/completions."""
    told = backend.tokenize(chat(read(ChatBody), backend.info(), settings))
    return reply(200, ChatTokens(tokens.simple(told), told.text))
