"""The JSON of /v1/completions: request, response, and the chunks of a stream."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from api.openai.protocol.errors import ErrorResponse
from api.openai.protocol.generation import CommonRequest, RankedTokens, UsageInfo
from api.openapi.operation import Operation
from api.response import SSE

FinishReason = Literal["stop", "length", "content_filter"]
LogprobsByText = dict[str, float | None]
Prompt = str | list[int | str | list[int]]
STREAM_NOTE = "With `stream`, the server sends chunks as server-sent events, and `[DONE]` after the last one."


class CompletionRequest(CommonRequest, kw_only=True):
    """A request to continue a text.

    prompt      text, token ids, or a list of either; choice i * n + k is answer k to prompt i
    max_tokens  16 by default; 0 is allowed with echo, and generates nothing
    echo        the answer begins with its prompt
    logprobs    alternatives to report for each token; 0: only the logprob of the sampled token
    suffix, prompt_embeds   must be null
    """

    prompt: Prompt | None = None
    echo: bool | None = None
    logprobs: int | None = None
    suffix: str | None = None
    prompt_embeds: Any = None


class CompletionLogprobs(Struct):
    """Parallel lists with one entry per token.

    text_offset  index of the token's first character in the choice's text
    """

    text_offset: list[int]
    token_logprobs: list[float | None]
    tokens: list[str]
    top_logprobs: list[LogprobsByText | None]


class CompletionChoice(Struct):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: FinishReason
    stop_reason: str | int | None
    prompt_logprobs: RankedTokens | None
    prompt_token_ids: list[int] | UnsetType = UNSET
    token_ids: list[int] | UnsetType = UNSET


class CompletionResponse(Struct, kw_only=True):
    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: UsageInfo
    system_fingerprint: str


class CompletionChunkChoice(Struct, kw_only=True):
    """The part of a choice that one chunk adds."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    token_ids: list[int] | UnsetType = UNSET
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    prompt_token_ids: list[int] | UnsetType = UNSET


class CompletionStreamResponse(Struct, kw_only=True):
    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChunkChoice]
    system_fingerprint: str
    usage: UsageInfo | UnsetType | None = UNSET


COMPLETE = Operation(
    "Continue a text",
    STREAM_NOTE,
    CompletionRequest,
    CompletionResponse,
    (SSE.mimetype,),
    error=ErrorResponse,
    takes_permit=True,
)
