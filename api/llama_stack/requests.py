"""From a Llama Stack body to the server's own GenerationRequests: one, or one for each item of a batch.

What a client can get wrong in a body is found here, before anything is generated.
"""

from dataclasses import replace
from typing import TypeVar

from api.llama_stack.bodies import (
    Body,
    Chat,
    ChatBatchBody,
    ChatBody,
    ChatMessage,
    CompletionBatchBody,
    CompletionBody,
    Content,
    Grammar,
    JsonSchema,
    SamplingParams,
    ToolConfig,
)
from api.llama_stack.messages import messages, text
from api.llama_stack.sampling import sampling
from api.llama_stack.tools import described, tools
from api.settings import AppSettings
from inference.errors import BadRequest
from inference.types import Constraint, GenerationRequest

T = TypeVar("T")


def completion(body: CompletionBody, settings: AppSettings) -> GenerationRequest:
    """The settings say what stands in for values that the body leaves out."""
    return _completion(body, body.content, "content", settings)


def completions(body: CompletionBatchBody, settings: AppSettings) -> list[GenerationRequest]:
    items = enumerate(_filled(body.content_batch, "content_batch"))
    return [_completion(body, item, f"content_batch[{i}]", settings) for i, item in items]


def chat(body: ChatBody, settings: AppSettings) -> GenerationRequest:
    return _chat(body, body.messages, "messages", settings)


def chats(body: ChatBatchBody, settings: AppSettings) -> list[GenerationRequest]:
    items = enumerate(_filled(body.messages_batch, "messages_batch"))
    return [_chat(body, item, f"messages_batch[{i}]", settings) for i, item in items]


def _filled(items: list[T], field: str) -> list[T]:
    if not items:
        raise BadRequest(field, "must hold at least one item")
    return items


def _completion(body: Body, content: Content, field: str, settings: AppSettings) -> GenerationRequest:
    return replace(_shaped(body, settings), prompt=text(content, field))


def _chat(body: Chat, said: list[ChatMessage], field: str, settings: AppSettings) -> GenerationRequest:
    conversation = messages(said, field)
    offered = tools(body.tools)
    config = body.tool_config or ToolConfig()
    if config.system_message_behavior == "replace":
        conversation = described(conversation, offered)
    return replace(
        _shaped(body, settings),
        prompt=conversation,
        tools=offered,
        tool_choice=config.tool_choice or body.tool_choice or "auto",
        tool_format=config.tool_prompt_format or body.tool_prompt_format,
    )


def _shaped(body: Body, settings: AppSettings) -> GenerationRequest:
    """Everything but the prompt."""
    params = body.sampling_params or SamplingParams()
    return GenerationRequest(
        prompt="",
        sampling=sampling(params, settings.temperature),
        max_tokens=params.max_tokens or settings.max_tokens,
        stop=(params.stop,) if isinstance(params.stop, str) else tuple(params.stop or ()),
        constraint=_constraint(body.response_format),
        deadline=settings.deadline_s,
        logprobs=(body.logprobs.top_k or 1) if body.logprobs else None,
    )


def _constraint(form: JsonSchema | Grammar | None) -> Constraint | None:
    match form:
        case JsonSchema():
            return Constraint("json_schema", form.json_schema)
        case Grammar():
            return Constraint("grammar", form.bnf)
        case _:
            return None
