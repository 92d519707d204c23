"""The shapes of this dialect's answers, for the API's document. The writers make them.

A field that is told on demand alone may be missing.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from api.models import Card

Scores = dict[str, float | None]
RankedTokens = list[dict[str, "RankedToken"] | None]


class Failure(Struct):
    message: str
    type: str
    param: str | None
    code: int


class ErrorBody(Struct):
    """`error` is what clients of OpenAI read, `error_type` what TGI's do."""

    error: Failure
    error_type: Literal["validation", "authentication", "not_found", "overloaded", "generation"]


class Unhealthy(Struct):
    error: str
    error_type: str


class PromptDetails(Struct):
    cached_tokens: int


class UsageAnswer(Struct):
    prompt_tokens: int
    total_tokens: int
    completion_tokens: int
    prompt_tokens_details: PromptDetails | None


class RankedToken(Struct):
    logprob: float | None
    rank: int
    decoded_token: str


class CompletionLogprobs(Struct):
    """Lists side by side, one entry a token."""

    text_offset: list[int]
    token_logprobs: list[float | None]
    tokens: list[str]
    top_logprobs: list[Scores | None]


class CompletionChoice(Struct):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"]
    stop_reason: str | int | None
    prompt_logprobs: RankedTokens | None
    prompt_token_ids: list[int] | UnsetType = UNSET
    token_ids: list[int] | UnsetType = UNSET


class Answer(Struct, kw_only=True):
    id: str
    created: int
    model: str
    usage: UsageAnswer
    system_fingerprint: str


class CompletionAnswer(Answer, kw_only=True):
    object: Literal["text_completion"]
    choices: list[CompletionChoice]


class Score(Struct):
    token: str
    logprob: float
    bytes: list[int]


class TokenScore(Score):
    top_logprobs: list[Score]


class ChatLogprobs(Struct):
    content: list[TokenScore]


class FunctionAnswer(Struct):
    name: str
    arguments: str


class CallAnswer(Struct):
    id: str
    type: Literal["function"]
    function: FunctionAnswer


class MessageAnswer(Struct):
    role: Literal["assistant"]
    content: str | None
    tool_calls: list[CallAnswer]
    function_call: FunctionAnswer | UnsetType | None = UNSET


class ChatChoice(Struct):
    index: int
    message: MessageAnswer
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls", "function_call"]
    stop_reason: str | int | None
    token_ids: list[int] | UnsetType = UNSET


class ChatAnswer(Answer, kw_only=True):
    object: Literal["chat.completion"]
    choices: list[ChatChoice]
    prompt_logprobs: RankedTokens | None
    prompt_token_ids: list[int] | UnsetType = UNSET


class EmbeddingEntry(Struct):
    """`embedding` is numbers, or their bytes in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingAnswer(Struct):
    id: str
    object: Literal["list"]
    model: str
    data: list[EmbeddingEntry]
    usage: UsageAnswer


class ResponseAnswer(Struct):
    """What the request said is repeated beside these."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["completed", "incomplete"]
    model: str
    output: list[dict[str, Any]]
    usage: dict[str, Any]
    incomplete_details: dict[str, str] | None


class TokenizeAnswer(Struct):
    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class DetokenizeAnswer(Struct):
    prompt: str


class LoadAnswer(Struct):
    server_load: int


class ModelsAnswer(Struct):
    object: Literal["list"]
    data: list[Card]
