"""Tools in words: how they are described to a model, and how calls are written, in each tool format.

The formats are those of Llama Stack's tool_prompt_format; what a model answers is read by toolcalls.py.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from inference import foreign
from inference.errors import BadRequest
from inference.types import Tool, ToolCall, ToolFormat

HOW: Mapping[ToolFormat, str] = {
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


def schema(tool: Tool) -> dict[str, Any]:
    """The form chat templates take."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def describe(tools: Iterable[Tool], how: ToolFormat) -> str:
    """A system prompt that tells a model of its tools."""
    listed = "\n".join(json.dumps(schema(tool)["function"], ensure_ascii=False) for tool in tools)
    return f"You can call these functions:\n{listed}\n\n{HOW[how]}\n\n{RULES}"


def write(calls: Iterable[ToolCall], how: ToolFormat) -> str:
    """Calls as the model would have written them."""
    joint, wrap, spell = WRITTEN[how]
    return wrap.format(joint.join(spell(call) for call in calls))


def arguments(call: ToolCall) -> dict[str, Any]:
    try:
        values = foreign.parsed(call.arguments or "{}")
    except ValueError:
        values = None
    if not isinstance(values, dict):
        rule = f"has a call of {call.name!r} whose arguments are not a JSON object"
        raise BadRequest("messages", rule, call.arguments)
    return values


def as_json(call: ToolCall) -> str:
    return json.dumps({"name": call.name, "parameters": arguments(call)}, ensure_ascii=False)


def as_tag(call: ToolCall) -> str:
    return f"<function={call.name}>{json.dumps(arguments(call), ensure_ascii=False)}</function>"


def as_python(call: ToolCall) -> str:
    return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in arguments(call).items())})"


WRITTEN: Mapping[ToolFormat, tuple[str, str, Callable[[ToolCall], str]]] = {
    "json": ("; ", "{}", as_json),
    "function_tag": ("", "{}", as_tag),
    "python_list": (", ", "[{}]", as_python),
}
