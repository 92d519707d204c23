"""Calls written as JSON objects: {"name": …, "parameters": {…}} and its variants, and name{…}.

Arguments that come behind their name are told as they are read; any others with the whole call.
"""

from collections.abc import Callable, Mapping

from inference.text.scan import (
    MARK,
    Rule,
    exactly,
    expect,
    json_object,
    json_string,
    json_text,
    json_value,
    overheard,
    quoted,
    solid,
    word,
)
from inference.text.telling import Telling

Found = dict[str, str]  # a call's "name" and "arguments", as far as they are known


def json_list(told: Telling) -> Rule[None]:
    """Behind its first two brackets."""
    yield from json_call(told)
    while (char := (yield from solid())) != "]":
        expect(char == "," and (yield from solid()) == "{")
        yield from json_call(told)


def json_call(told: Telling) -> Rule[None]:
    """Behind its bracket; refused at the first key or name that does not fit."""
    found: Found = {}
    yield from members(OUTER, told, found)
    if not told.open:
        told.whole(found["name"], found["arguments"])
    else:
        told.end()


def members(known: Mapping[str, "Member"], told: Telling, found: Found) -> Rule[None]:
    """The members of an object up to its closing bracket, which have a name and arguments among them."""
    char = ","
    while char == ",":
        expect((yield from solid()) == '"')
        key = yield from json_string()
        expect(key in known and (yield from solid()) == ":")
        yield from known[key]((yield from solid()), told, found)
        char = yield from solid()
    expect(char == "}" and found.keys() == {"name", "arguments"})


def function_member(head: str, told: Telling, found: Found) -> Rule[None]:
    """A name, or as in OpenAI's form {"name": …, "arguments": …}."""
    if head == "{":
        yield from members(INNER, told, found)
    else:
        yield from name_member(head, told, found)


def name_member(head: str, told: Telling, found: Found) -> Rule[None]:
    expect(head == '"' and "name" not in found)
    found["name"] = yield from json_string()
    expect(found["name"] in told.tools)


def arguments_member(head: str, told: Telling, found: Found) -> Rule[None]:
    """An object, or a string that holds one."""
    expect(head in '"{' and "arguments" not in found)
    if head == '"':
        found["arguments"] = json_text(json_value((yield from json_string())))
    elif "name" in found:
        found["arguments"] = yield from told_object(told, found["name"])
    else:
        found["arguments"] = yield from json_object()


def other_member(head: str, told: Telling, found: Found) -> Rule[None]:
    expect(head == '"')
    yield from quoted('"')


Member = Callable[[str, Telling, Found], Rule[None]]
INNER: Mapping[str, Member] = {
    "name": name_member,
    "parameters": arguments_member,
    "arguments": arguments_member,
}
OUTER: Mapping[str, Member] = {
    **INNER,
    "function": function_member,
    "tool_name": name_member,
    "type": other_member,
    "id": other_member,
    "tool_call_id": other_member,
}


def told_object(told: Telling, name: str) -> Rule[str]:
    """The arguments of a call to `name` behind their bracket; the call begins with them."""
    told.begin(name)
    told.more("{")
    return (yield from overheard(json_object(), told.more))


# name{…}, as Mistral's [TOOL_CALLS]name[ARGS]{…} -------------------------------------------------------


def named_call(head: str, told: Telling, *, certain: bool) -> Rule[None]:
    """`certain`: it stands behind a tag, so that its bracket is no word's neighbour by chance."""
    name, char = yield from word(head, told.tools)
    expect(name in told.tools)
    if char == "[":
        yield from exactly("ARGS]")
    if char in ("[", MARK):
        certain, char = True, (yield from solid())
    expect(char == "{")
    if certain:
        yield from told_object(told, name)
        told.end()
    else:
        told.whole(name, (yield from json_object()))
