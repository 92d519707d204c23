"""What a forced tool call looks like, as a constraint. Knows special tokens' ids, and no parser of calls."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inference.constrain.grammars import JSON_OPTIONS
from inference.errors import BadRequest
from inference.types import Constraint, Tool

Special = Mapping[str, int]
Form = Callable[[Sequence[Tool], bool, Special], Constraint]


def tool_constraint(
    tools: Sequence[Tool], choice: str, form: str = "llama", *, several: bool = False, special: Special
) -> Constraint | None:
    """The constraint for tool_choice "required" or a tool's name; None for "auto" and "none".

    form     the format that the model writes calls in: "llama", "hermes", "mistral" or "python"
    several  "required" may be answered by several calls
    special  the model's special tokens, by name

    Raises BadRequest("tool_choice") for a name that is not among the tools.
    """
    if choice in ("auto", "none"):
        return None
    chosen = [tool for tool in tools if choice in ("required", tool.name)]
    if not chosen:
        raise BadRequest("tool_choice", "must be one of the tools' names, auto, none or required", choice)
    return FORMS[form](chosen, several and choice == "required", special)


def _llama(tools: Sequence[Tool], several: bool, _: Special) -> Constraint:
    """Llama 3.1's form: {"name": …, "parameters": {…}}, or a list of it."""
    call = _any_call(tools, "parameters")
    if not several:
        return Constraint("json_schema", call)
    one = {"$ref": "#/$defs/call"}
    return Constraint("json_schema", {"$defs": {"call": call}, "anyOf": [one, _list(one)]})


def _hermes(tools: Sequence[Tool], several: bool, special: Special) -> Constraint:
    r"""Hermes' and Qwen's form: <tool_call>\n{"name": …, "arguments": {…}}\n</tool_call>."""
    begin, end = _mark("<tool_call>", special), _mark("</tool_call>", special)
    call = f'{begin} "\\n" %json {_inline(_any_call(tools, "arguments"))} "\\n" {end}'
    return _lark(call, 'call ("\\n" call)*' if several else "call")


def _mistral(tools: Sequence[Tool], several: bool, special: Special) -> Constraint:
    """Mistral's form: [TOOL_CALLS][{"name": …, "arguments": {…}}], or what newer ones have in its place."""
    if "[ARGS]" in special:
        return _lark(_with_arguments(tools, special), "call+" if several else "call")
    calls = _list(_any_call(tools, "arguments"), {} if several else {"maxItems": 1})
    return _lark(f"{_mark('[TOOL_CALLS]', special)} %json {_inline(calls)}", "call")


def _with_arguments(tools: Sequence[Tool], special: Special) -> str:
    """[TOOL_CALLS]name[ARGS]{…}"""
    begin, between = _mark("[TOOL_CALLS]", special), _mark("[ARGS]", special)
    return " | ".join(
        f"{begin} {_quoted(tool.name)} {between} %json {_inline(_parameters(tool))}" for tool in tools
    )


FORMS: Mapping[str, Form] = {
    "llama": _llama,
    "hermes": _hermes,
    "mistral": _mistral,
    "python": _llama,  # Python's literals have no schema
}


def _lark(call: str, start: str) -> Constraint:
    """A grammar in llguidance's own form, which nothing in a tool's schema makes look like another."""
    return Constraint("grammar", {"grammars": [{"lark_grammar": f"start: {start}\ncall: {call}"}]})


def _any_call(tools: Sequence[Tool], key: str) -> dict[str, Any]:
    return {"anyOf": [_call(tool, key) for tool in tools]}


def _call(tool: Tool, key: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, key: _parameters(tool)},
        "required": ["name", key],
        "additionalProperties": False,
    }


def _list(call: dict[str, Any], limits: Mapping[str, int] | None = None) -> dict[str, Any]:
    return {"type": "array", "items": call, "minItems": 1, **(limits or {})}


def _parameters(tool: Tool) -> dict[str, Any]:
    """The tool's schema under an id of its own, so that its "#/…" references stay within it."""
    return {"type": "object", "$id": f"tool:{tool.name}", **tool.parameters}


def _inline(schema: Mapping[str, Any]) -> str:
    return json.dumps({**schema, "x-guidance": JSON_OPTIONS})


def _mark(tag: str, special: Special) -> str:
    """A special token is no text to llguidance; it goes by its id."""
    return f"<[{special[tag]}]>" if tag in special else _quoted(tag)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
