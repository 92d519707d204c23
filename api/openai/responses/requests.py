"""A Responses body as the chat it stands for: from there on it is understood as any other chat.

What only responses have is checked here.
"""

from api.openai.bodies import ChatBody, JsonSchema, ResponseFormat
from api.openai.conversation import (
    Call,
    CalledFunction,
    ChatMessage,
    Function,
    NamedFunction,
    NamedTool,
    ToolDef,
)
from api.openai.errors import Refused, WrongBody
from api.openai.messages import ROLES, call_arguments, text
from api.openai.responses.bodies import FunctionChoice, FunctionTool, InputItem, ResponsesBody, TextFormat
from inference.errors import NotFound, short

LOGPROBS = "message.output_text.logprobs"


def as_chat(body: ResponsesBody) -> ChatBody:
    """Raises WrongBody, Refused, and NotFound for an earlier response."""
    if body.previous_response_id is not None:
        raise not_kept(body.previous_response_id)
    for field in ("background", "conversation", "prompt"):
        if getattr(body, field):
            raise Refused(f"{field} is not supported: this server keeps nothing", field)
    scored = LOGPROBS in (body.include or ()) or bool(body.top_logprobs)
    return ChatBody(
        model=body.model,
        messages=conversation(body),
        max_completion_tokens=body.max_output_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        tools=[_tool(tool, f"tools[{i}]") for i, tool in enumerate(body.tools)] if body.tools else None,
        tool_choice=None if body.tool_choice == "auto" else _choice(body.tool_choice),
        parallel_tool_calls=body.parallel_tool_calls,
        response_format=_format(body.text.format) if body.text and body.text.format else None,
        reasoning_effort=body.reasoning.effort if body.reasoning else None,
        logprobs=scored,
        top_logprobs=body.top_logprobs,
        truncate_prompt_tokens=-1 if body.truncation == "auto" else None,
        stream=body.stream,
    )


def not_kept(id: str) -> NotFound:
    return NotFound(
        f"Response with id {short(id)} not found: this server is stateless, it keeps no responses"
    )


def conversation(body: ResponsesBody) -> list[ChatMessage]:
    """Calls belong to the assistant's message before them. Faults are found here, by their item's place."""
    items = [InputItem(role="user", content=body.input)] if isinstance(body.input, str) else body.input
    said: list[ChatMessage] = []
    for i, item in enumerate(items):
        kind = item.type or "message"
        if kind == "reasoning":
            continue
        if kind not in READERS:
            rule = f"must be one of {', '.join(READERS)}, got {short(kind)}"
            raise Refused(f"input[{i}].type {rule}", f"input[{i}].type")
        message = READERS[kind](item, f"input[{i}]")
        if message.tool_calls and said and said[-1].role == "assistant":
            said[-1].tool_calls = [*(said[-1].tool_calls or ()), *message.tool_calls]
        else:
            said.append(message)
    told = [ChatMessage("system", body.instructions)] if body.instructions else []
    return told + said


def _message(item: InputItem, field: str) -> ChatMessage:
    if item.role not in ROLES:
        rule = f"must be one of {', '.join(ROLES)}, got {short(item.role)}"
        raise WrongBody(f"{field}.role {rule}", f"{field}.role")
    return ChatMessage(item.role, text(item.content, f"{field}.content"))


def _call(item: InputItem, field: str) -> ChatMessage:
    if not item.name or not item.call_id:
        raise WrongBody(f"{field} needs a name and a call_id", field)
    function = CalledFunction(item.name, call_arguments(item.arguments, f"{field}.arguments"))
    return ChatMessage("assistant", tool_calls=[Call(function, item.call_id)])


def _result(item: InputItem, field: str) -> ChatMessage:
    if not item.call_id or item.output is None:
        raise WrongBody(f"{field} needs a call_id and an output", field)
    return ChatMessage("tool", text(item.output, f"{field}.output"), tool_call_id=item.call_id)


READERS = {"message": _message, "function_call": _call, "function_call_output": _result}


def _tool(tool: FunctionTool, field: str) -> ToolDef:
    if tool.type != "function":
        raise Refused(f"{field}.type must be function, got {short(tool.type)}", f"{field}.type")
    return ToolDef(Function(tool.name, tool.description, tool.parameters, tool.strict))


def _choice(choice: str | FunctionChoice | None) -> str | NamedTool | None:
    return NamedTool(NamedFunction(choice.name)) if isinstance(choice, FunctionChoice) else choice


def _format(form: TextFormat) -> ResponseFormat:
    return ResponseFormat(form.type, JsonSchema(form.name, form.description, form.schema, form.strict))
