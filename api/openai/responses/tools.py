"""The tools of a response as functions: a chat template knows no other kind.

The function f of the namespace n becomes n__f, as in vLLM. A custom tool becomes a function with one text
parameter. Tools that OpenAI's own servers run, such as web_search, are left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, starmap
from typing import Any

from api.body.json_body import to_struct
from api.body.large_json import WHOLE_BODY
from api.openai.errors import InvalidBody
from api.openai.protocol.chat import FunctionDefinition, ToolParam
from api.openai.responses.protocol import ResponsesRequest
from api.openai.responses.tool_protocol import CustomFormat, NamespacedTool, ResponsesTool
from inference.errors import BadRequest, short

INPUT = "input"  # the parameter of a custom tool's function
ECHOED_FIELDS = {
    "function": ("name", "description", "parameters", "strict"),
    "custom": ("name", "description", "format"),
}  # the callable types, and the fields that a response repeats
TOOL_ITEMS = ("additional_tools", "tool_search_output")  # types of input items that add tools


@dataclass(frozen=True, slots=True)
class CallableTool:
    """A function or custom tool that the model may call.

    namespace  name of the tool's namespace; None: it has none
    """

    definition: NamespacedTool
    namespace: str | None = None

    @property
    def is_custom(self) -> bool:
        return self.definition.type == "custom"

    def to_function(self) -> ToolParam:
        tool = self.definition
        parameters = _input_schema(tool.format) if self.is_custom else tool.parameters
        name = function_name(tool.name, self.namespace)
        return ToolParam(FunctionDefinition(name, tool.description, parameters, tool.strict))


CallableTools = dict[str, CallableTool]  # by the name of their function


def function_name(name: str, namespace: str | None) -> str:
    """The model's name for a tool."""
    return f"{namespace}__{name}" if namespace else name


def callable_tools(body: ResponsesRequest) -> CallableTools:
    """The tools of the body. A later definition of the same tool replaces an earlier one.

    Raises InvalidBody for a tool without a name, and for two tools whose functions have the same name.
    """
    tools: CallableTools = {}
    for tool, field in chain.from_iterable(starmap(_flatten, _definitions(body))):
        if not tool.definition.name:
            raise InvalidBody(f"{field}.name must not be empty", f"{field}.name")
        name = function_name(tool.definition.name, tool.namespace)
        if name in tools and tools[name].namespace != tool.namespace:
            rule = f"{field} becomes the function {short(name)} for the model, and so does an earlier tool"
            raise InvalidBody(f"{rule}: rename one of them", f"{field}.name")
        tools[name] = tool
    return tools


def _definitions(body: ResponsesRequest) -> Iterator[tuple[ResponsesTool, str]]:
    """The definitions in the body and in its items, each with its field in errors."""
    yield from _numbered(body.tools or [], "tools")
    for i, item in enumerate(body.items):
        if item.type in TOOL_ITEMS:
            field = f"input[{i}].tools"
            yield from _numbered(convert_field(item.tools or [], list[ResponsesTool], field), field)


def _numbered(tools: list[ResponsesTool], field: str) -> Iterator[tuple[ResponsesTool, str]]:
    return ((tool, f"{field}[{i}]") for i, tool in enumerate(tools))


def convert_field(value: Any, to_type: Any, field: str) -> Any:
    """The value of a field whose type depends on the item. Raises InvalidBody with the path in the field."""
    try:
        return to_struct(value, to_type, strict=False)
    except BadRequest as error:
        path = field if error.field == WHOLE_BODY else f"{field}{error.field}"
        raise InvalidBody(f"{path} {error.rule}", path) from None


def _flatten(definition: ResponsesTool, field: str) -> Iterator[tuple[CallableTool, str]]:
    """The callable tools of a definition, each with its field in errors."""
    if definition.type in ECHOED_FIELDS:
        yield CallableTool(definition), field
    elif definition.type == "namespace":
        for i, tool in enumerate(definition.tools or ()):
            if tool.type in ECHOED_FIELDS:
                yield CallableTool(tool, definition.name or None), f"{field}.tools[{i}]"


def _input_schema(format: CustomFormat | None) -> dict[str, Any]:
    """The parameters of a custom tool's function. A regular expression becomes a pattern.

    A grammar in Lark's syntax cannot be part of a JSON schema: the model only reads it.
    """
    text: dict[str, Any] = {"type": "string"}
    if format and format.definition and format.syntax == "regex":
        text["pattern"] = f"^(?:{format.definition})$"
    elif format and format.definition:
        text["description"] = f"Text of this {format.syntax or ''} grammar:\n{format.definition}"
    return {"type": "object", "properties": {INPUT: text}, "required": [INPUT], "additionalProperties": False}


def echoed_tools(definitions: Iterable[ResponsesTool]) -> list[dict[str, Any]]:
    """The tools as a response repeats them: those that the model was offered."""
    return [_echo(tool) for tool in definitions if tool.type in ECHOED_FIELDS or tool.type == "namespace"]


def _echo(tool: NamespacedTool) -> dict[str, Any]:
    if isinstance(tool, ResponsesTool) and tool.type == "namespace":
        tools = [_echo(each) for each in tool.tools or () if each.type in ECHOED_FIELDS]
        return {"type": tool.type, "name": tool.name, "description": tool.description or "", "tools": tools}
    fields = {name: getattr(tool, name) for name in ECHOED_FIELDS[tool.type]}
    if tool.type == "custom":  # OpenAI's schema has no null in its fields
        fields = {name: value for name, value in fields.items() if value is not None}
    return {"type": tool.type} | fields
