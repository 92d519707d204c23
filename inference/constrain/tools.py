"""What a forced tool call looks like, as a constraint. Knows no tokens and no parser of calls."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from inference.constrain.grammars import JSON_OPTIONS
from inference.errors import BadRequest, NotImplementedHere
from inference.types import Constraint, Tool, ToolFormat


def tool_constraint(tools: Sequence[Tool], choice: str, form: ToolFormat = "json") -> Constraint | None:
    """The constraint for tool_choice "required" or a tool's name; None for "auto" and "none".

    Raises BadRequest("tool_choice") for a name that is not among the tools, NotImplementedHere for a format
    whose calls are not JSON.
    """
    if choice in ("auto", "none"):
        return None
    chosen = [tool for tool in tools if choice in ("required", tool.name)]
    if not chosen:
        raise BadRequest("tool_choice", "must be one of the tools' names, auto, none or required", choice)
    if form not in FORMS:
        raise NotImplementedHere(
            f"tool_choice={choice} needs a tool format among {', '.join(FORMS)}, not {form}"
        )
    return FORMS[form](chosen)


def _json(tools: Sequence[Tool]) -> Constraint:
    """Llama 3.1's form: {"name": …, "parameters": {…}}."""
    return Constraint("json_schema", {"anyOf": [_call(tool) for tool in tools]})


def _function_tag(tools: Sequence[Tool]) -> Constraint:
    """Llama 3.1's custom form: <function=name>{…}</function>."""
    calls = [f'{_quoted(f"<function={tool.name}>")} %json {_inline(tool)} "</function>"' for tool in tools]
    return Constraint("grammar", "start: " + "\n    | ".join(calls))


FORMS: dict[str, Callable[[Sequence[Tool]], Constraint]] = {"json": _json, "function_tag": _function_tag}


def _call(tool: Tool) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "parameters": _parameters(tool)},
        "required": ["name", "parameters"],
        "additionalProperties": False,
    }


def _parameters(tool: Tool) -> dict[str, Any]:
    """The tool's schema under an id of its own, so that its "#/…" references stay within it."""
    return {"type": "object", "$id": f"tool:{tool.name}", **tool.parameters}


def _inline(tool: Tool) -> str:
    return json.dumps({"x-guidance": JSON_OPTIONS, **_parameters(tool)})


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
