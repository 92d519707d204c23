"""Calls in a tag that names the function: Llama's <function=f>{…}</function>, and Qwen 3's
<function=f><parameter=a>1</parameter></function>, whose parameters are no JSON and so are told whole.
"""

from collections.abc import Mapping
from typing import Any

from inference.text.jsoncalls import told_object
from inference.text.scan import NotACall, Rule, exactly, expect, json_text, json_value, solid, until, word
from inference.text.telling import Telling
from inference.types import Tool


def function_call(told: Telling) -> Rule[None]:
    """Behind "<function="."""
    name, char = yield from word((yield), told.tools)
    expect(char == ">" and name in told.tools)
    if (char := (yield from solid())) == "{":
        yield from told_object(told, name)
        told.end()
        return
    expect(char == "<")
    values: dict[str, Any] = {}
    while (char := (yield)) == "p":
        yield from exactly("arameter=")
        key = yield from until(">")
        values[key] = typed((yield from until("</parameter>")), key, told.tools[name])
        expect((yield from solid()) == "<")
    expect(char == "/")
    yield from exactly("function>")
    told.whole(name, json_text(values))


def typed(text: str, key: str, tool: Tool) -> Any:
    """A parameter's value: what its text says as JSON, if it does and the schema does not want a string."""
    text = text.removeprefix("\n").removesuffix("\n")
    properties = tool.parameters.get("properties")
    wanted = properties.get(key) if isinstance(properties, Mapping) else None
    if isinstance(wanted, Mapping) and wanted.get("type") == "string":
        return text
    try:
        return json_value(text)
    except NotACall:
        return text
