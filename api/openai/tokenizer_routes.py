"""vLLM's routes of the tokenizer: prompts to token ids and back, and its configuration."""

from flask import Blueprint, Response, request

from api.body import json_body
from api.errors import json_response
from api.openai.errors import InvalidBody
from api.openai.protocol.tokenize import (
    DETOKENIZE,
    TOKENIZER_INFO,
    DetokenizeRequest,
    DetokenizeResponse,
    TokenizeRequest,
    TokenizeResponse,
)
from api.openai.requests.messages import parse_messages, parse_tools, sent_tools
from api.openai.requests.parse import make_template, read_request
from api.openapi.operation import attach_operation
from inference.models import Models
from inference.types import GenerationRequest


def tokenize(models: Models) -> Response:
    body = read_request(TokenizeRequest)
    served = models.resolve(body.model)
    tokens = served.backend.tokenize(_generation_request(body)).token_spans
    return json_response(
        200,
        TokenizeResponse(
            count=len(tokens),
            max_model_len=served.card.info.context,
            tokens=[token.id for token in tokens],
            token_strs=[token.name for token in tokens] if body.return_token_strs else None,
        ),
    )


def _generation_request(body: TokenizeRequest) -> GenerationRequest:
    if (body.prompt is None) == (body.messages is None):
        raise InvalidBody("exactly one of prompt and messages is required", "prompt")
    if body.messages is None:
        return GenerationRequest(body.prompt or "", add_special_tokens=body.add_special_tokens)
    return GenerationRequest(
        parse_messages(body.messages),
        template=make_template(
            body.add_generation_prompt, body.continue_final_message, body.chat_template_kwargs
        ),
        add_special_tokens=body.add_special_tokens,
        tools=parse_tools(body.tools, sent_tools(json_body.read())),
    )


def install_tokenizer(blueprint: Blueprint, models: Models) -> None:
    """Add the routes other than /tokenize, a path that TGI has, too (api/path_dispatch.py)."""

    def detokenize() -> Response:
        body = read_request(DetokenizeRequest)
        backend = models.resolve(body.model).backend
        return json_response(
            200, DetokenizeResponse(backend.detokenize(body.tokens, not body.skip_special_tokens))
        )

    def tokenizer_info() -> Response:
        return json_response(200, models.resolve(request.args.get("model")).backend.tokenizer_config())

    view = attach_operation(detokenize, DETOKENIZE)
    blueprint.add_url_rule("/detokenize", "detokenize", view, methods=["POST"])
    view = attach_operation(tokenizer_info, TOKENIZER_INFO)
    blueprint.add_url_rule("/tokenizer_info", "tokenizer_info", view)
