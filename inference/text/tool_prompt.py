"""The server's own description of tools for the prompt, and the text of past calls, in each tool format.

The formats are those of Llama Stack's tool_prompt_format. tool_parsers/ parses the answers.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from inference import untrusted_json
from inference.types import Tool, ToolCall, ToolFormat

INSTRUCTIONS: Mapping[ToolFormat, str] = {
    "json": (
        "To call a function, answer with nothing but a JSON object of its name and its parameters:\n"
        '{"name": "function_name", "parameters": {"parameter_name": "value"}}\n'
        "To call several, write one object after the other, separated by semicolons."
    ),
    "function_tag": (
        "To call a function, answer with nothing but its name in a tag and its parameters as a JSON object:\n"
        '<function=function_name>{"parameter_name": "value"}</function>'
    ),
    "python_list": (
        "To call functions, answer with nothing but a list of calls with keyword arguments:\n"
        '[function_name(parameter_name="value"), other_function()]'
    ),
}
RULES = (
    "Use only the functions above, give every required parameter, and put no words before or after a call. "
    "Where no function helps, answer in plain words. After a call you are told its result: answer from it."
)
UNPARSED_ARGUMENTS = "unparsed_arguments"


def tool_schema(tool: Tool) -> dict[str, Any]:
    """The tool in the format that chat templates expect."""
    if tool.definition is not None:
        return dict(tool.definition)
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def describe_tools(tools: Iterable[Tool], tool_format: ToolFormat) -> str:
    """A system prompt that describes the tools to the model."""
    schemas = "\n".join(json.dumps(tool_schema(tool)["function"], ensure_ascii=False) for tool in tools)
    return f"You can call these functions:\n{schemas}\n\n{INSTRUCTIONS[tool_format]}\n\n{RULES}"


def write_calls(calls: Iterable[ToolCall], tool_format: ToolFormat) -> str:
    """The text of tool calls, as the model would write them."""
    separator, wrap, write_call = CALL_WRITERS[tool_format]
    return wrap.format(separator.join(write_call(call) for call in calls))


def parse_arguments(call: ToolCall) -> dict[str, Any] | None:
    """The arguments; None if they are not a JSON object, for example because max_tokens cut the call."""
    try:
        return untrusted_json.parse_json_object(call.arguments or "{}")
    except ValueError:
        return None


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """The arguments; text that is not a JSON object becomes the only member of one."""
    values = parse_arguments(call)
    return {UNPARSED_ARGUMENTS: call.arguments} if values is None else values


def write_json(call: ToolCall) -> str:
    return json.dumps({"name": call.name, "parameters": arguments_object(call)}, ensure_ascii=False)


def write_tag(call: ToolCall) -> str:
    return f"<function={call.name}>{json.dumps(arguments_object(call), ensure_ascii=False)}</function>"


def write_python(call: ToolCall) -> str:
    return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in arguments_object(call).items())})"


CALL_WRITERS: Mapping[ToolFormat, tuple[str, str, Callable[[ToolCall], str]]] = {
    "json": ("; ", "{}", write_json),
    "function_tag": ("", "{}", write_tag),
    "python_list": (", ", "[{}]", write_python),
}
