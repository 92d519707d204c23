"""Constraints for forced tool calls. Knows the ids of special tokens; knows no tool parser."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inference.errors import BadRequest
from inference.structured_output.closed_schema import close_schema
from inference.structured_output.grammars import JSON_OPTIONS
from inference.types import Constraint, Tool

SpecialIds = Mapping[str, int]
ToolGrammar = Callable[[Sequence[Tool], bool, SpecialIds], Constraint]


def tool_constraint(
    tools: Sequence[Tool],
    choice: str,
    call_format: str = "llama",
    *,
    allow_several: bool = False,
    special_ids: SpecialIds,
) -> Constraint:
    """The constraint for tool_choice "required" or a tool's name.

    call_format    the model's format of calls: "llama", "hermes", "mistral" or "python"
    allow_several  "required" allows several calls
    special_ids    the model's special tokens, by name

    Raises BadRequest("tool_choice") for a name that is not among the tools.
    """
    callable_tools = [tool for tool in tools if choice in ("required", tool.name)]
    if not callable_tools:
        raise BadRequest("tool_choice", "must be one of the tools' names, auto, none or required", choice)
    return TOOL_GRAMMARS[call_format](callable_tools, allow_several and choice == "required", special_ids)


def _llama(tools: Sequence[Tool], allow_several: bool, _: SpecialIds) -> Constraint:
    """Llama 3.1's format: {"name": …, "parameters": {…}}, or a list of such objects."""
    call = _any_call(tools, "parameters")
    if not allow_several:
        return Constraint("json_schema", call)
    call_ref = {"$ref": "#/$defs/call"}
    return Constraint("json_schema", {"$defs": {"call": call}, "anyOf": [call_ref, _list(call_ref)]})


def _hermes(tools: Sequence[Tool], allow_several: bool, special_ids: SpecialIds) -> Constraint:
    r"""The format of Hermes and Qwen: <tool_call>\n{"name": …, "arguments": {…}}\n</tool_call>."""
    begin_tag, end_tag = _tag_terminal("<tool_call>", special_ids), _tag_terminal("</tool_call>", special_ids)
    call = f'{begin_tag} "\\n" %json {_inline(_any_call(tools, "arguments"))} "\\n" {end_tag}'
    return _lark(call, 'call ("\\n" call)*' if allow_several else "call")


def _mistral(tools: Sequence[Tool], allow_several: bool, special_ids: SpecialIds) -> Constraint:
    """Mistral's format: [TOOL_CALLS][{"name": …, "arguments": {…}}], or with [ARGS] for newer models."""
    if "[ARGS]" in special_ids:
        return _lark(_with_arguments(tools, special_ids), "call+" if allow_several else "call")
    calls = _list(_any_call(tools, "arguments"), {} if allow_several else {"maxItems": 1})
    return _lark(f"{_tag_terminal('[TOOL_CALLS]', special_ids)} %json {_inline(calls)}", "call")


def _with_arguments(tools: Sequence[Tool], special_ids: SpecialIds) -> str:
    """[TOOL_CALLS]name[ARGS]{…}"""
    begin_tag, args_tag = _tag_terminal("[TOOL_CALLS]", special_ids), _tag_terminal("[ARGS]", special_ids)
    return " | ".join(
        f"{begin_tag} {_quoted(tool.name)} {args_tag} %json {_inline(_parameters(tool))}" for tool in tools
    )


TOOL_GRAMMARS: Mapping[str, ToolGrammar] = {
    "llama": _llama,
    "hermes": _hermes,
    "mistral": _mistral,
    "python": _llama,  # Python's literals have no schema
}


def _lark(call: str, start: str) -> Constraint:
    """A grammar in llguidance's own format, which no content of a tool's schema can change."""
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
    """The tool's schema with an $id of its own, so that "#/…" references resolve within it."""
    return {"type": "object", "$id": f"tool:{tool.name}", **tool.parameters}


def _inline(schema: Mapping[str, Any]) -> str:
    return json.dumps({**close_schema(schema), "x-guidance": JSON_OPTIONS})


def _tag_terminal(tag: str, special_ids: SpecialIds) -> str:
    """The tag as a terminal: by id if it is a special token, which llguidance does not match as text."""
    return f"<[{special_ids[tag]}]>" if tag in special_ids else _quoted(tag)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
