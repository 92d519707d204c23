"""Prompts to tokens and back, as vLLM tells them."""

from typing import Any

from flask import Response
from msgspec import Struct

from api.errors import reply
from api.openai.conversation import ChatMessage, ToolDef
from api.openai.errors import WrongBody
from api.openai.messages import messages
from api.openai.models import served
from api.openai.reading import read
from api.openai.requests import template
from api.openai.tools import tools
from api.settings import AppSettings
from inference.backend import Backend
from inference.types import GenerationRequest


class TokenizeBody(Struct, kw_only=True):
    """A text or a conversation to be told as tokens.

    prompt                one text
    messages              a conversation, which its chat template tells first
    add_special_tokens    whether the tokenizer adds its special tokens; null: as suits the kind of prompt
    return_token_strs     tell what the vocabulary calls each token, too
    add_generation_prompt, continue_final_message, chat_template_kwargs, tools   as in a chat completion
    """

    model: str | None = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    tools: list[ToolDef] | None = None


class DetokenizeBody(Struct):
    """Token ids to be told as text."""

    tokens: list[int]
    model: str | None = None


def tokenize(backend: Backend, settings: AppSettings) -> Response:
    body = read(TokenizeBody)
    info = backend.info()
    served(body.model, info, settings)
    pieces = backend.tokenize(_request(body)).pieces
    return reply(
        200,
        {
            "count": len(pieces),
            "max_model_len": info.context,
            "tokens": [piece.id for piece in pieces],
            "token_strs": [piece.name for piece in pieces] if body.return_token_strs else None,
        },
    )


def detokenize(backend: Backend, settings: AppSettings) -> Response:
    body = read(DetokenizeBody)
    served(body.model, backend.info(), settings)
    return reply(200, {"prompt": backend.detokenize(body.tokens)})


def _request(body: TokenizeBody) -> GenerationRequest:
    if (body.prompt is None) == (body.messages is None):
        raise WrongBody("prompt or messages must be given, and not both", "prompt")
    if body.messages is None:
        return GenerationRequest(body.prompt or "", special=body.add_special_tokens)
    return GenerationRequest(
        messages(body.messages),
        template=template(body.add_generation_prompt, body.continue_final_message, body.chat_template_kwargs),
        special=body.add_special_tokens,
        tools=tools(body.tools),
    )
