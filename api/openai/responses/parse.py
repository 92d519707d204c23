"""Converts a Responses body to a chat request, and checks the fields that chat requests lack."""

from api.openai.errors import InvalidBody, InvalidParameter
from api.openai.messages import ROLES, call_arguments, parse_content
from api.openai.protocol.chat import (
    CalledFunction,
    ChatCompletionRequest,
    ChatMessage,
    FunctionDefinition,
    NamedFunction,
    NamedTool,
    ToolCallParam,
    ToolParam,
)
from api.openai.protocol.generation import NamedJsonSchema, ResponseFormat
from api.openai.responses.protocol import (
    FunctionChoice,
    FunctionTool,
    InputItem,
    ResponsesRequest,
    TextFormat,
)
from inference.errors import NotFound, short

LOGPROBS = "message.output_text.logprobs"


def to_chat_request(body: ResponsesRequest) -> ChatCompletionRequest:
    """Raises InvalidBody, InvalidParameter, and NotFound for previous_response_id."""
    if body.previous_response_id is not None:
        raise not_stored_error(body.previous_response_id)
    for field in ("background", "conversation", "prompt"):
        if getattr(body, field):
            raise InvalidParameter(f"{field} is not supported: this server stores nothing", field)
    with_logprobs = LOGPROBS in (body.include or ()) or bool(body.top_logprobs)
    return ChatCompletionRequest(
        model=body.model,
        messages=to_chat_messages(body),
        max_completion_tokens=body.max_output_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        tools=[_tool(tool, f"tools[{i}]") for i, tool in enumerate(body.tools)] if body.tools else None,
        tool_choice=None if body.tool_choice == "auto" else _choice(body.tool_choice),
        parallel_tool_calls=body.parallel_tool_calls,
        response_format=_format(body.text.format) if body.text and body.text.format else None,
        reasoning_effort=body.reasoning.effort if body.reasoning else None,
        logprobs=with_logprobs,
        top_logprobs=body.top_logprobs,
        truncate_prompt_tokens=-1 if body.truncation == "auto" else None,
        stream=body.stream,
    )


def not_stored_error(id: str) -> NotFound:
    return NotFound(f"Response with id {short(id)} not found: this server stores no responses")


def to_chat_messages(body: ResponsesRequest) -> list[ChatMessage]:
    """A function call is added to the assistant's message before it. Raises InvalidBody, InvalidParameter."""
    items = [InputItem(role="user", content=body.input)] if isinstance(body.input, str) else body.input
    messages: list[ChatMessage] = []
    for i, item in enumerate(items):
        kind = item.type or "message"
        if kind == "reasoning":
            continue
        if kind not in ITEM_PARSERS:
            rule = f"must be one of {', '.join(ITEM_PARSERS)}, got {short(kind)}"
            raise InvalidParameter(f"input[{i}].type {rule}", f"input[{i}].type")
        message = ITEM_PARSERS[kind](item, f"input[{i}]")
        if message.tool_calls and messages and messages[-1].role == "assistant":
            messages[-1].tool_calls = [*(messages[-1].tool_calls or ()), *message.tool_calls]
        else:
            messages.append(message)
    system_messages = [ChatMessage("system", body.instructions)] if body.instructions else []
    return system_messages + messages


def _message(item: InputItem, field: str) -> ChatMessage:
    if item.role not in ROLES:
        rule = f"must be one of {', '.join(ROLES)}, got {short(item.role)}"
        raise InvalidBody(f"{field}.role {rule}", f"{field}.role")
    parse_content(item.content, f"{field}.content")  # the error names the field of this body
    return ChatMessage(item.role, item.content or "")


def _call(item: InputItem, field: str) -> ChatMessage:
    if not item.name or not item.call_id:
        raise InvalidBody(f"{field} needs a name and a call_id", field)
    function = CalledFunction(item.name, call_arguments(item.arguments, f"{field}.arguments"))
    return ChatMessage("assistant", tool_calls=[ToolCallParam(function, item.call_id)])


def _result(item: InputItem, field: str) -> ChatMessage:
    if not item.call_id or item.output is None:
        raise InvalidBody(f"{field} needs a call_id and an output", field)
    parse_content(item.output, f"{field}.output")
    return ChatMessage("tool", item.output, tool_call_id=item.call_id)


ITEM_PARSERS = {"message": _message, "function_call": _call, "function_call_output": _result}


def _tool(tool: FunctionTool, field: str) -> ToolParam:
    if tool.type != "function":
        raise InvalidParameter(f"{field}.type must be function, got {short(tool.type)}", f"{field}.type")
    return ToolParam(FunctionDefinition(tool.name, tool.description, tool.parameters, tool.strict))


def _choice(choice: str | FunctionChoice | None) -> str | NamedTool | None:
    return NamedTool(NamedFunction(choice.name)) if isinstance(choice, FunctionChoice) else choice


def _format(text_format: TextFormat) -> ResponseFormat:
    return ResponseFormat(
        text_format.type,
        NamedJsonSchema(text_format.name, text_format.description, text_format.schema, text_format.strict),
    )
