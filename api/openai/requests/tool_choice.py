"""Converts the tool choice of a chat request: whether and which tools the answer must or may call."""

from api.openai.errors import InvalidBody
from api.openai.protocol.chat import ChatCompletionRequest, ToolChoice
from inference.errors import short

TOOL_CHOICES = ("none", "auto", "required")
ALIASES = {"any": "required"}  # Mistral's word
NO_MATCH = "The tool specified in `tool_choice` does not match any of the specified `tools`"  # vLLM's
NONE_ALLOWED = "tool_choice requires a call, but allows no tool that the model can call"


def parse_tool_choice(body: ChatCompletionRequest) -> str:
    """Returns none, auto (the default), required, or the name of the tool to call. Raises InvalidBody."""
    name = choice_name(body.tool_choice)
    if name is None or name == "none":
        return name or "auto"
    if body.tools is None or (not body.tools and name != "auto"):
        raise InvalidBody("When using `tool_choice`, `tools` must be set.", "tool_choice")
    names_function = isinstance(body.tool_choice, ToolChoice) and body.tool_choice.function is not None
    is_known = name in TOOL_CHOICES and not names_function
    if not is_known and name not in tool_names(body):
        raise InvalidBody(NO_MATCH, "tool_choice")
    return name


def allowed_tools(body: ChatCompletionRequest) -> frozenset[str] | None:
    """The names of the tools that may be called; None: all. Raises InvalidBody for an unknown name."""
    choice = body.tool_choice
    if not isinstance(choice, ToolChoice) or choice.function or not choice.allowed_tools:
        return None
    names = frozenset(tool.function.name for tool in choice.allowed_tools.tools)
    if unknown := sorted(names - tool_names(body)):
        rule = f"tool_choice allows {short(unknown[0])}, which is not among the tools: add it to `tools`"
        raise InvalidBody(rule, "tool_choice")
    if not names and choice.allowed_tools.mode == "required":
        raise InvalidBody(NONE_ALLOWED, "tool_choice")
    return names


def forces_named_tool(body: ChatCompletionRequest) -> bool:
    """Whether tool_choice names one tool. As in vLLM, finish_reason is then stop, not tool_calls."""
    return choice_name(body.tool_choice) not in (None, *TOOL_CHOICES)


def choice_name(choice: str | ToolChoice | None) -> str | None:
    """One of TOOL_CHOICES, the name of a tool, or None. Raises InvalidBody for an incomplete object."""
    if not isinstance(choice, ToolChoice):
        return choice and ALIASES.get(choice, choice)
    if choice.function:
        return choice.function.name
    if choice.allowed_tools:
        return choice.allowed_tools.mode
    field = f"tool_choice.{choice.type if choice.type == 'allowed_tools' else 'function'}"
    raise InvalidBody(f"{field} is required", field)


def tool_names(body: ChatCompletionRequest) -> set[str]:
    return {tool.function.name for tool in body.tools or ()}
