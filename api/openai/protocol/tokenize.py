"""The JSON of /tokenize and /detokenize."""

from typing import Any

from msgspec import Struct

from api.openai.protocol.chat import ChatMessage, ToolParam
from api.openai.protocol.errors import ErrorResponse
from api.openapi.operation import Operation


class TokenizeRequest(Struct, kw_only=True):
    """A text or a conversation to tokenize; exactly one of `prompt` and `messages` is required.

    prompt                one text
    messages              a conversation, which the chat template renders first
    add_special_tokens    whether the tokenizer adds its special tokens; null: only for `prompt`
    return_token_strs     also return each token as it is written in the vocabulary
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
    tools: list[ToolParam] | None = None


class TokenizeResponse(Struct):
    count: int
    max_model_len: int | None
    tokens: list[int]
    token_strs: list[str] | None


class DetokenizeRequest(Struct):
    """Token ids to convert to text. skip_special_tokens: leave special tokens out, as in SGLang."""

    tokens: list[int]
    model: str | None = None
    skip_special_tokens: bool = False


class DetokenizeResponse(Struct):
    prompt: str


TOKENIZE = Operation(
    "Split a text or a conversation into tokens", "", TokenizeRequest, TokenizeResponse, error=ErrorResponse
)
DETOKENIZE = Operation(
    "Convert token ids to text", "", DetokenizeRequest, DetokenizeResponse, error=ErrorResponse
)
TOKENIZER_INFO = Operation(
    "Describe the tokenizer as its tokenizer_config.json does",
    "The special tokens, and the chat template in use.",
    response=dict[str, Any],
    error=ErrorResponse,
    query={"model": "One of the served names. Default: the first model."},
)
