"""Converts the tool choice of a response to that of a chat request, which names the tools' functions."""

from api.openai.errors import InvalidBody
from api.openai.protocol.chat import AllowedTools, NamedFunction, NamedTool, ToolChoice
from api.openai.responses.protocol import ResponsesRequest
from api.openai.responses.tool_protocol import ResponsesToolChoice, ToolReference
from api.openai.responses.tools import ECHOED_FIELDS, CallableTools, function_name

ALLOWED_TOOLS = "allowed_tools"
NO_CALLABLE_TOOL = (
    "tool_choice demands a call, but the model can call only functions, custom tools and namespaces of them"
)


def to_chat_tool_choice(body: ResponsesRequest, tools: CallableTools) -> str | ToolChoice | None:
    """Raises InvalidBody if the choice demands a call and none of the body's tools can be called."""
    choice = body.tool_choice
    if body.tools and not tools:
        if _demands_call(choice):
            raise InvalidBody(NO_CALLABLE_TOOL, "tool_choice")
        return None
    if not isinstance(choice, ResponsesToolChoice):
        return None if choice == "auto" else choice
    if choice.type == ALLOWED_TOOLS:
        return ToolChoice(allowed_tools=_allowed_tools(choice, tools), type=ALLOWED_TOOLS)
    return ToolChoice(NamedFunction(_function(choice, tools)))


def _demands_call(choice: str | ResponsesToolChoice | None) -> bool:
    if isinstance(choice, ResponsesToolChoice):
        return choice.type != ALLOWED_TOOLS or choice.mode != "auto"
    return choice not in (None, "none", "auto")


def _allowed_tools(choice: ResponsesToolChoice, tools: CallableTools) -> AllowedTools:
    """The functions of the allowed tools. Tools that the model cannot call are left out."""
    for field in ("mode", "tools"):
        if getattr(choice, field) is None:
            raise InvalidBody(f"tool_choice.{field} is required", f"tool_choice.{field}")
    names = [name for tool in choice.tools or () for name in _functions(tool, tools)]
    return AllowedTools(choice.mode or "auto", [NamedTool(NamedFunction(name)) for name in names])


def _functions(reference: ToolReference, tools: CallableTools) -> list[str]:
    """The functions of a tool; of a namespace: all of its functions."""
    if reference.type == "namespace":
        return [name for name, tool in tools.items() if tool.namespace == reference.name]
    return [_function(reference, tools)] if reference.type in ECHOED_FIELDS else []


def _function(reference: ToolReference, tools: CallableTools) -> str:
    """The name of a tool's function. The reference may leave out the namespace if one has the tool."""
    name = function_name(reference.name, reference.namespace)
    if name in tools or reference.namespace:
        return name
    names = [each for each, tool in tools.items() if tool.definition.name == reference.name]
    return names[0] if len(names) == 1 else name
