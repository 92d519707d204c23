"""The shapes of Llama Stack's answers, for the API's document. The writers in replies.py make them.

A field that only some generations have may be missing.
"""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from api.models import Card


class Violation(Struct):
    loc: list[str | int]
    msg: str
    type: str


class Violations(Struct):
    errors: list[Violation]


class Failure(Struct):
    detail: Violations | str
    message: str


class ErrorBody(Struct):
    """Clients of every generation find their error in one of these places."""

    error: Failure
    detail: Violations | str


class Alternatives(Struct):
    """A token and its alternatives: log-probabilities by their texts."""

    logprobs_by_token: dict[str, float]


class Metric(Struct):
    metric: str
    value: int
    unit: str | None


class ToolCallAnswer(Struct):
    call_id: str
    tool_name: str
    arguments: dict[str, Any]
    arguments_json: str | UnsetType = UNSET


class CompletionMessage(Struct):
    """`content` is text, or under /passthrough a text part."""

    role: str
    content: str | dict[str, str]
    stop_reason: str
    tool_calls: list[ToolCallAnswer]


class CompletionAnswer(Struct):
    content: str
    stop_reason: str
    logprobs: list[Alternatives] | None
    completion_message: CompletionMessage | UnsetType = UNSET
    metrics: list[Metric] | UnsetType = UNSET


class ChatAnswer(Struct):
    completion_message: CompletionMessage
    logprobs: list[Alternatives] | None
    metrics: list[Metric] | UnsetType = UNSET


class CompletionBatchAnswer(Struct):
    batch: list[CompletionAnswer]
    completion_message_batch: list[CompletionMessage] | UnsetType = UNSET


class ChatBatchAnswer(Struct):
    batch: list[ChatAnswer]
    completion_message_batch: list[CompletionMessage] | UnsetType = UNSET


class EmbeddingsAnswer(Struct):
    embeddings: list[tuple[float, ...]]


class Health(Struct):
    status: str


class Provider(Struct):
    """Where a list is of providers by API, an entry has the first two fields alone."""

    provider_id: str
    provider_type: str
    api: str | UnsetType = UNSET
    config: dict[str, Any] | UnsetType = UNSET
    health: Health | UnsetType = UNSET


class Route(Struct):
    route: str
    method: str
    provider_types: list[str]


class Models(Struct):
    object: str
    data: list[Card]


class Version(Struct):
    version: str


class Providers(Struct):
    data: list[Provider]


class Routes(Struct):
    data: list[Route]


class ProvidersByApi(Struct):
    inference: list[Provider]


class RoutesByApi(Struct):
    inference: list[Route]
