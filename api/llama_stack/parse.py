"""Converts a Llama Stack body to GenerationRequests: one, or one per item of a batch.

Errors in the body are raised here or when the backend checks the request, before anything is generated.
"""

from dataclasses import replace
from typing import TypeVar

from api.llama_stack.errors import InvalidModel
from api.llama_stack.messages import insert_definitions, parse_content, parse_messages, parse_tools
from api.llama_stack.protocol.inference import (
    BatchChatRequest,
    BatchCompletionRequest,
    Content,
    ConversationMessage,
    GrammarResponseFormat,
    InferenceRequest,
    JsonSchemaResponseFormat,
    LlamaStackChatRequest,
    LlamaStackCompletionRequest,
    ModelRequest,
    SamplingParams,
    SamplingStrategy,
    ToolConfig,
    ToolsRequest,
)
from inference.content import content_text
from inference.errors import BadRequest
from inference.models import Models, UnknownModel
from inference.sampling import Sampling
from inference.served import Served
from inference.types import Constraint, GenerationRequest
from settings.groups import ServerSettings

STRATEGIES = ("greedy", "top_p", "top_k")
DEFAULT_TOP_P = 0.95  # default of the strategy top_p

T = TypeVar("T")


def completion_request(body: LlamaStackCompletionRequest, settings: ServerSettings) -> GenerationRequest:
    """The settings provide values that the body omits. Raises BadRequest."""
    return _completion_request(body, body.content, "content", settings)


def completion_requests(body: BatchCompletionRequest, settings: ServerSettings) -> list[GenerationRequest]:
    items = enumerate(_require_items(body.content_batch, "content_batch"))
    return [_completion_request(body, item, f"content_batch[{i}]", settings) for i, item in items]


def chat_request(body: LlamaStackChatRequest, settings: ServerSettings) -> GenerationRequest:
    return _chat_request(body, body.messages, "messages", settings)


def chat_requests(body: BatchChatRequest, settings: ServerSettings) -> list[GenerationRequest]:
    items = enumerate(_require_items(body.messages_batch, "messages_batch"))
    return [_chat_request(body, item, f"messages_batch[{i}]", settings) for i, item in items]


def _require_items(items: list[T], field: str) -> list[T]:
    if not items:
        raise BadRequest(field, "must hold at least one item")
    return items


def _completion_request(
    body: InferenceRequest, content: Content, field: str, settings: ServerSettings
) -> GenerationRequest:
    prompt = content_text(parse_content(content, field))
    return replace(_request_without_prompt(body, settings), prompt=prompt)


def _chat_request(
    body: ToolsRequest, messages: list[ConversationMessage], field: str, settings: ServerSettings
) -> GenerationRequest:
    conversation = parse_messages(messages, field)
    tools = parse_tools(body.tools)
    config = body.tool_config or ToolConfig()
    if config.system_message_behavior == "replace":
        conversation = insert_definitions(conversation, tools)
    return replace(
        _request_without_prompt(body, settings),
        prompt=conversation,
        tools=tools,
        tool_choice=config.tool_choice or body.tool_choice or "auto",
        tool_format=config.tool_prompt_format or body.tool_prompt_format,
    )


def _request_without_prompt(body: InferenceRequest, settings: ServerSettings) -> GenerationRequest:
    """A GenerationRequest with an empty prompt, to be replaced."""
    params = body.sampling_params or SamplingParams()
    return GenerationRequest(
        prompt="",
        sampling=parse_sampling(params, settings.default_temperature),
        max_tokens=params.max_tokens or settings.default_max_tokens,
        stop=(params.stop,) if isinstance(params.stop, str) else tuple(params.stop or ()),
        constraint=_parse_constraint(body.response_format),
        deadline=settings.request_timeout_s,
        logprobs=(body.logprobs.top_k or 1) if body.logprobs else None,
    )


def _parse_constraint(
    response_format: JsonSchemaResponseFormat | GrammarResponseFormat | None,
) -> Constraint | None:
    match response_format:
        case JsonSchemaResponseFormat():
            return Constraint("json_schema", response_format.json_schema)
        case GrammarResponseFormat():
            return Constraint("grammar", response_format.bnf)
        case _:
            return None


def resolve_model(body: ModelRequest, models: Models) -> Served:
    """The model that the body names. Raises BadRequest if it names none, InvalidModel if it is not served."""
    name = body.model_id or body.model
    if not name:
        raise BadRequest("model_id", f"is required: this server has {models.ids}")
    try:
        return models.resolve(name)
    except UnknownModel as error:
        raise InvalidModel(error) from None


def parse_sampling(params: SamplingParams, default_temperature: float) -> Sampling:
    """The backend checks the ranges."""
    choice = _sampling_for(*_strategy(params), default_temperature)
    repetition = 1.0 if params.repetition_penalty is None else params.repetition_penalty
    return replace(choice, repetition_penalty=repetition, seed=params.seed)


def _strategy(params: SamplingParams) -> tuple[str | None, SamplingStrategy | SamplingParams]:
    """The strategy's name, and the struct with its values: params.strategy since 0.1, before that `params`.

    Raises BadRequest. Only the values in params.strategy have the strict ranges of the protocol.
    """
    if not isinstance(params.strategy, SamplingStrategy):
        _check_name(params.strategy, "sampling_params.strategy")
        return params.strategy, params
    strategy, field = params.strategy, "sampling_params.strategy"
    _check_name(strategy.type, f"{field}.type")
    if strategy.temperature is not None and strategy.temperature <= 0:
        raise BadRequest(f"{field}.temperature", "must be more than 0 (or use greedy)", strategy.temperature)
    if strategy.type == "top_k" and (strategy.top_k is None or strategy.top_k < 1):
        raise BadRequest(f"{field}.top_k", "must be at least 1", strategy.top_k)
    return strategy.type, strategy


def _check_name(name: str | None, field: str) -> None:
    if name is not None and name not in STRATEGIES:
        raise BadRequest(field, f"must be one of {', '.join(STRATEGIES)}", name)


def _sampling_for(
    name: str | None, values: SamplingStrategy | SamplingParams, default_temperature: float
) -> Sampling:
    """The sampling of a strategy.

    Temperature 0 is greedy with any strategy, because old clients send it by default. Without a strategy,
    temperature 1 is greedy too. Other temperatures sample, because clients of this project's predecessor send
    only a temperature.
    """
    temperature = default_temperature if values.temperature is None else values.temperature
    top_k = values.top_k or 0
    if name == "greedy" or temperature == 0 or (name is None and temperature == 1):
        return Sampling(greedy=True)
    if name == "top_p":
        return Sampling(
            temperature=temperature, top_p=DEFAULT_TOP_P if values.top_p is None else values.top_p
        )
    if name == "top_k":
        return Sampling(temperature=temperature, top_k=top_k)
    return Sampling(temperature=temperature, top_p=1.0 if values.top_p is None else values.top_p, top_k=top_k)
