"""Parsers of calls in JSON: {"name": …, "parameters": {…}} and its variants, name{…} and {"name": {…}}.

Arguments after the name are streamed; arguments before it are emitted with the whole call.
"""

from collections.abc import Callable, Mapping

from inference.text.tool_parsers.emitter import ToolCallEmitter
from inference.text.tool_parsers.scanner import (
    Parser,
    expect,
    is_special,
    json_object,
    json_string,
    json_text,
    json_value,
    next_nonspace,
    one_of,
    quoted_text,
    tee,
    until,
)

ARGS, CALL_ID = "[ARGS]", "[CALL_ID]"
CallFields = dict[str, str]  # a call's "name" and "arguments", as far as parsed


def parse_json_list(emitter: ToolCallEmitter) -> Parser[None]:
    """The rest of a list of calls, after "[{"."""
    yield from parse_json_call(emitter)
    while (char := (yield from next_nonspace())) != "]":
        expect(char == "," and (yield from next_nonspace()) == "{")
        yield from parse_json_call(emitter)


def parse_json_call(emitter: ToolCallEmitter) -> Parser[None]:
    """The rest of a call after "{". Fails at the first unknown key or function name."""
    fields: CallFields = {}
    yield from parse_members(OUTER_MEMBERS, emitter, fields)
    if not emitter.is_open:
        emitter.emit_call(fields["name"], fields["arguments"])
    else:
        emitter.end_call()


def parse_members(
    handlers: Mapping[str, "MemberParser"], emitter: ToolCallEmitter, fields: CallFields
) -> Parser[None]:
    """The members of an object up to its closing bracket; a name and arguments are required."""
    char = ","
    while char == ",":
        expect((yield from next_nonspace()) == '"')
        key = yield from json_string()
        expect(key in handlers and (yield from next_nonspace()) == ":")
        yield from handlers[key]((yield from next_nonspace()), emitter, fields)
        char = yield from next_nonspace()
    expect(char == "}" and fields.keys() == {"name", "arguments"})


def parse_function(first_char: str, emitter: ToolCallEmitter, fields: CallFields) -> Parser[None]:
    """The member "function": a name, or OpenAI's object {"name": …, "arguments": …}."""
    if first_char == "{":
        yield from parse_members(INNER_MEMBERS, emitter, fields)
    else:
        yield from parse_name(first_char, emitter, fields)


def parse_name(first_char: str, emitter: ToolCallEmitter, fields: CallFields) -> Parser[None]:
    expect(first_char == '"' and "name" not in fields)
    fields["name"] = yield from json_string()
    expect(fields["name"] in emitter.tools)


def parse_arguments_member(first_char: str, emitter: ToolCallEmitter, fields: CallFields) -> Parser[None]:
    """The arguments: a JSON object, or a string that contains one."""
    expect(first_char in '"{' and "arguments" not in fields)
    if first_char == '"':
        fields["arguments"] = json_text(json_value((yield from json_string())))
    elif "name" in fields:
        fields["arguments"] = yield from parse_arguments(emitter, fields["name"])
    else:
        fields["arguments"] = yield from json_object()


def skip_string(first_char: str, emitter: ToolCallEmitter, fields: CallFields) -> Parser[None]:
    expect(first_char == '"')
    yield from quoted_text('"')


MemberParser = Callable[[str, ToolCallEmitter, CallFields], Parser[None]]
INNER_MEMBERS: Mapping[str, MemberParser] = {
    "name": parse_name,
    "parameters": parse_arguments_member,
    "arguments": parse_arguments_member,
}
OUTER_MEMBERS: Mapping[str, MemberParser] = {
    **INNER_MEMBERS,
    "function": parse_function,
    "tool_name": parse_name,
    "type": skip_string,
    "id": skip_string,
    "tool_call_id": skip_string,
}


def parse_arguments(emitter: ToolCallEmitter, name: str) -> Parser[str]:
    """The arguments of a call to `name`, after "{". Starts the call and streams them."""
    emitter.begin_call(name)
    emitter.append_arguments("{")
    return (yield from tee(json_object(), emitter.append_arguments))


def parse_named_call(name: str, char: str, emitter: ToolCallEmitter, *, is_certain: bool) -> Parser[None]:
    """The rest of name{…}, as in Mistral's [TOOL_CALLS]name[ARGS]{…}, after the name and a character.

    Streams the arguments if it is certainly a call.
    """
    if char == "[" or is_special(char):
        if (yield from one_of(char, (ARGS, CALL_ID))) == CALL_ID:
            yield from until(ARGS)
        is_certain, char = True, (yield from next_nonspace())
    expect(char == "{")
    if is_certain:
        yield from parse_arguments(emitter, name)
        emitter.end_call()
    else:
        emitter.emit_call(name, (yield from json_object()))


def parse_keyed_calls(emitter: ToolCallEmitter) -> Parser[None]:
    """Apertus' list of calls, [{"name": {…}}, …]."""
    expect((yield from next_nonspace()) == "[")
    char = ","
    while char == ",":
        expect((yield from next_nonspace()) == "{" and (yield from next_nonspace()) == '"')
        name = yield from json_string()
        expect(name in emitter.tools and (yield from next_nonspace()) == ":")
        expect((yield from next_nonspace()) == "{")
        yield from parse_arguments(emitter, name)
        expect((yield from next_nonspace()) == "}")
        emitter.end_call()
        char = yield from next_nonspace()
    expect(char == "]")
