"""OpenAI's tools, and the choice among them, in the server's own terms."""

from api.openai.bodies import ChatBody
from api.openai.conversation import NamedTool, ToolDef
from api.openai.errors import WrongBody
from inference.errors import short
from inference.types import Tool

CHOICES = ("none", "auto", "required")
NO_MATCH = "The tool specified in `tool_choice` does not match any of the specified `tools`"


def tools(defined: list[ToolDef] | None) -> tuple[Tool, ...]:
    """Raises WrongBody for tools that are no functions."""
    for i, tool in enumerate(defined or ()):
        if tool.type != "function":
            raise WrongBody(f"tools[{i}].type must be function, got {short(tool.type)}", f"tools[{i}].type")
        if not tool.function.name:
            raise WrongBody(f"tools[{i}].function.name must not be empty", f"tools[{i}].function.name")
    return tuple(_tool(tool) for tool in defined or ())


def _tool(tool: ToolDef) -> Tool:
    function = tool.function
    parameters = function.parameters or {"type": "object", "properties": {}}
    return Tool(function.name, function.description or "", parameters)


def tool_choice(body: ChatBody) -> str:
    """ "auto" where tools are given and nothing is said of them; a tool's name demands that tool."""
    named = named_tool(body.tool_choice)
    if named is None or named == "none":
        return named or "auto"
    if body.tools is None or (not body.tools and named != "auto"):
        raise WrongBody("When using `tool_choice`, `tools` must be set.", "tool_choice")
    names = [tool.function.name for tool in body.tools]
    if named not in names and not (isinstance(body.tool_choice, str) and named in CHOICES):
        raise WrongBody(NO_MATCH, "tool_choice")
    return named


def named_tool(choice: str | NamedTool | None) -> str | None:
    return choice.function.name if isinstance(choice, NamedTool) else choice


def demands_one(body: ChatBody) -> bool:
    """One tool is asked for by its name: vLLM's answers then end with stop, and not with tool_calls."""
    return body.tool_choice is not None and named_tool(body.tool_choice) not in CHOICES
