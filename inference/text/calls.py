"""The formats in which models write tool calls: what may begin a call, and where.

Knows the rules of each form by name; what they tell goes to a Telling.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from inference.text.functioncalls import function_call
from inference.text.jsoncalls import json_call, json_list, named_call
from inference.text.pythoncalls import python_list
from inference.text.scan import NotACall, Rule, exactly, expect, solid, word
from inference.text.telling import Telling

CallFormat = Literal["llama", "hermes", "mistral", "python"]
CALL_FORMATS: tuple[CallFormat, ...] = get_args(CallFormat)
Form = Literal["object", "list", "python", "function", "named"]
Forms = frozenset[Form]

FUNCTION, TOOL_CALLS = "<function=", "[TOOL_CALLS]"
CLOSINGS = ("</tool_call>", "</function>")
JSON: Forms = frozenset({"object", "list"})
ANY: Forms = JSON | {"python", "function", "named"}


@dataclass(frozen=True, slots=True)
class Format:
    """tags    texts that announce a call wherever they stand
    bare    forms that a call may have where nothing announces it: at an opening of the answer
    behind  forms that it may have behind a tag or a special token
    """

    tags: tuple[str, ...]
    bare: Forms
    behind: Forms


FORMATS: Mapping[str, Format] = {
    "auto": Format(("<tool_call>", "<|python_tag|>", FUNCTION, TOOL_CALLS), ANY, ANY),
    "llama": Format(("<|python_tag|>", FUNCTION), JSON, JSON),
    "hermes": Format(("<tool_call>", FUNCTION), frozenset(), frozenset({"object", "function"})),
    "mistral": Format((TOOL_CALLS,), frozenset(), frozenset({"list", "named"})),
    "python": Format(("<|python_tag|>",), frozenset({"python"}), frozenset({"python"})),
}
# What a chat template says of its model's format; the first that it holds decides.
SIGNS: Mapping[str, CallFormat] = {
    TOOL_CALLS: "mistral",
    "<tool_call>": "hermes",
    "<|python_tag|>": "llama",
    "<|python_start|>": "python",
}


def format_of(template: str) -> CallFormat:
    """The format of a model with this chat template."""
    return next((form for sign, form in SIGNS.items() if sign in template), "llama")


def heads(forms: Forms, names: Iterable[str]) -> frozenset[str]:
    """The characters that a call of one of these forms may begin with; of a function's tag none is told."""
    opening = {"object": "{", "list": "[", "python": "["}
    first = {opening[form] for form in forms if form in opening}
    return frozenset(first.union(name[:1] for name in names) if "named" in forms else first)


def tagged(head: str, tags: Iterable[str], form: Format, told: Telling) -> Rule[None]:
    """Calls behind one of `tags`, whose first character `head` is; none behind a closing tag."""
    tag, tags = head, tuple(tags)
    while tag not in tags:
        if not any(other.startswith(tag) for other in tags):
            raise NotACall
        tag += yield
    if tag == FUNCTION:
        yield from function_call(told)
    elif tag not in CLOSINGS:
        yield from bare((yield from solid()), form.behind, form, told, certain=True)


def bare(head: str, forms: Forms, form: Format, told: Telling, *, certain: bool = False) -> Rule[None]:
    """{"name": …} · [{"name": …}, …] · [f(a=1), …] · <function=f> · f{…}; also lists behind [TOOL_CALLS]."""
    if head == "{":
        expect("object" in forms)
        yield from json_call(told)
    elif head == "<":
        expect("function" in forms)
        yield from exactly("function=")
        yield from function_call(told)
    elif head == "[":
        yield from bracketed(forms, form, told)
    else:
        expect("named" in forms)
        yield from named_call(head, told, certain=certain)


def bracketed(forms: Forms, form: Format, told: Telling) -> Rule[None]:
    """Behind an opening bracket: a list of calls, or the rest of [TOOL_CALLS]."""
    if (head := (yield from solid())) == "{":
        expect("list" in forms)
        yield from json_list(told)
        return
    name, char = yield from word(head, (*told.tools, "TOOL_CALLS"))
    if name + char == "TOOL_CALLS]":
        expect(TOOL_CALLS in form.tags)
        yield from bare((yield from solid()), form.behind, form, told, certain=True)
    else:
        expect("python" in forms)
        yield from python_list(name, char, told)
