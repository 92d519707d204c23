"""The bodies of Llama Stack requests, of all generations: one lenient shape for each.

Only shapes. Unknown fields are ignored, and every optional field may be null.
"""

from typing import Any, Literal

from msgspec import Struct

ToolPromptFormat = Literal["json", "function_tag", "python_list"]


class Part(Struct):
    """A piece of a message's content: `{"type": "text", "text": …}`, or an image in any of its spellings."""

    type: str | None = None
    text: str | None = None


Content = str | Part | list[str | Part]


class Call(Struct):
    """A tool call of an earlier answer; `arguments` is an object or its JSON text."""

    tool_name: str
    call_id: str | None = None
    arguments: dict[str, Any] | str | None = None
    arguments_json: str | None = None


class ChatMessage(Struct):
    """`ipython` is what generations before 0.1 call the role `tool`; `context` is a user's retrieved text."""

    role: str
    content: Content | None = None
    context: Content | None = None
    call_id: str | None = None
    tool_name: str | None = None
    tool_calls: list[Call] | None = None


class Strategy(Struct):
    type: str
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None


class SamplingParams(Struct):
    """Generations before 0.1 name the strategy and put its values beside it; max_tokens 0 means unset."""

    strategy: Strategy | str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    repetition_penalty: float | None = None
    stop: str | list[str] | None = None
    seed: int | None = None


class Parameter(Struct):
    param_type: str
    description: str | None = None
    required: bool | None = None
    default: Any = None


class ToolDef(Struct):
    tool_name: str
    description: str | None = None
    parameters: dict[str, Parameter] | None = None


class ToolConfig(Struct):
    tool_choice: str | None = None
    tool_prompt_format: ToolPromptFormat | None = None
    system_message_behavior: Literal["append", "replace"] | None = None


class JsonSchema(Struct, tag_field="type", tag="json_schema"):
    json_schema: dict[str, Any]


class Grammar(Struct, tag_field="type", tag="grammar"):
    bnf: dict[str, Any] | str


class Logprobs(Struct):
    top_k: int | None = None


class Named(Struct, kw_only=True):
    """`model` is what clients before 0.0.53 call it."""

    model: str | None = None
    model_id: str | None = None


class EmbeddingsBody(Named, kw_only=True):
    """`output_dimension` must be unset: vectors are as wide as the model."""

    contents: list[Content]
    output_dimension: int | None = None


class Body(Named, kw_only=True):
    """What every generating request may carry."""

    sampling_params: SamplingParams | None = None
    response_format: JsonSchema | Grammar | None = None
    logprobs: Logprobs | None = None


class CompletionBody(Body, kw_only=True):
    content: Content
    stream: bool | None = None


class CompletionBatchBody(Body, kw_only=True):
    content_batch: list[Content]


class Chat(Body, kw_only=True):
    tools: list[ToolDef] | None = None
    tool_choice: str | None = None
    tool_prompt_format: ToolPromptFormat | None = None
    tool_config: ToolConfig | None = None


class ChatBody(Chat, kw_only=True):
    messages: list[ChatMessage]
    stream: bool | None = None


class ChatBatchBody(Chat, kw_only=True):
    messages_batch: list[list[ChatMessage]]
