"""Converts a Responses body to a chat request, and checks the fields that chat requests lack."""

from api.openai.errors import InvalidBody, InvalidParameter
from api.openai.protocol.chat import ChatCompletionRequest
from api.openai.protocol.generation import NamedJsonSchema, ResponseFormat, SamplingFields
from api.openai.responses.input_items import to_chat_messages
from api.openai.responses.protocol import ResponsesRequest, TextFormat
from api.openai.responses.tool_choice import to_chat_tool_choice
from api.openai.responses.tools import CallableTools
from api.openai.stored import check_metadata
from inference.errors import short

LOGPROBS = "message.output_text.logprobs"
FORMAT_TYPES = ("text", "json_object", "json_schema")
FORMAT_HAS_MOVED = (  # OpenAI's words
    "Unsupported parameter: 'response_format'. In the Responses API, this parameter has moved to "
    "'text.format'."
)
TRUNCATIONS = ("auto", "disabled")


def to_chat_request(body: ResponsesRequest, tools: CallableTools) -> ChatCompletionRequest:
    """`tools` are the body's; its input has all earlier items. Raises InvalidBody, InvalidParameter."""
    if body.prompt:
        raise InvalidParameter("prompt is not supported: this server stores no prompt templates", "prompt")
    if body.response_format is not None:
        raise InvalidParameter(FORMAT_HAS_MOVED, "response_format")
    if body.truncation not in (None, *TRUNCATIONS):
        rule = f"truncation must be one of {', '.join(TRUNCATIONS)}, got {short(body.truncation)}"
        raise InvalidBody(rule, "truncation")
    if body.max_tool_calls is not None and body.max_tool_calls < 1:
        raise InvalidBody(f"max_tool_calls must be at least 1, got {body.max_tool_calls}", "max_tool_calls")
    check_metadata(body.metadata)
    with_logprobs = LOGPROBS in (body.include or ()) or bool(body.top_logprobs)
    return ChatCompletionRequest(
        model=body.model,
        messages=to_chat_messages(body),
        max_completion_tokens=body.max_output_tokens,
        tools=[tool.to_function() for tool in tools.values()] or None,
        tool_choice=to_chat_tool_choice(body, tools),
        parallel_tool_calls=body.parallel_tool_calls,
        response_format=_format(body.text.format) if body.text and body.text.format else None,
        reasoning_effort=body.reasoning.effort if body.reasoning else None,
        chat_template_kwargs=body.chat_template_kwargs,
        logprobs=with_logprobs,
        top_logprobs=body.top_logprobs,
        truncate_prompt_tokens=-1 if body.truncation == "auto" else None,
        stream=body.stream,
        **{field: getattr(body, field) for field in SamplingFields.__struct_fields__},
    )


def _format(text_format: TextFormat) -> ResponseFormat:
    if text_format.type not in FORMAT_TYPES:
        rule = f"must be one of {', '.join(FORMAT_TYPES)}, got {short(text_format.type)}"
        raise InvalidBody(f"text.format.type {rule}", "text.format.type")
    if text_format.type == "json_schema" and text_format.schema is None:
        raise InvalidBody("text.format.schema is required", "text.format.schema")
    return ResponseFormat(
        text_format.type,
        NamedJsonSchema(text_format.name, text_format.description, text_format.schema, text_format.strict),
    )
