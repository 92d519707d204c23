"""The JSON schemas of the types in the operations, with a description of each field.

A struct's docstring describes its fields in a table: lines "name   meaning" or "name, name   meaning". A
meaning may continue on indented lines.
"""

import inspect
import re
from collections.abc import Collection, Iterable, Iterator
from types import UnionType
from typing import Any, get_args

import msgspec

from api.openapi.operation import Operation

SCHEMAS = "#/components/schemas/"
TABLE_LINE = re.compile(r"(?P<names>\w+(?:, \w+)*)(?: {2,}(?P<meaning>\S.*))?")

Json = dict[str, Any]


class Schemas:
    """The JSON schemas of all types in the operations. Structs become components of the document."""

    def __init__(self, operations: Iterator[Operation]) -> None:
        types_by_operation = ((each.body, each.form_data, each.response, each.error) for each in operations)
        self._types = [
            one
            for types in types_by_operation
            for type in types
            if type is not None
            for one in union_members(type)
        ]
        schemas, self.components = msgspec.json.schema_components(
            self._types, ref_template=SCHEMAS + "{name}"
        )
        self._schemas = list(schemas)
        for struct in find_structs(self._types):
            describe_fields(self.components[struct.__name__], struct)
            order_fields(self.components[struct.__name__], struct)

    def schema_of(self, type: Any) -> Json:
        schemas = [self._schemas[self._types.index(one)] for one in union_members(type)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def union_members(type: Any) -> tuple[Any, ...]:
    """The members of a union type. msgspec has no schema for a union of untagged structs."""
    return get_args(type) if isinstance(type, UnionType) else (type,)


def find_structs(types: Iterable[Any]) -> set[type[msgspec.Struct]]:
    """All structs in the types, including those of their fields."""
    structs: set[type[msgspec.Struct]] = set()

    def visit(node: Any) -> None:
        if isinstance(node, msgspec.inspect.StructType):
            if node.cls in structs:
                return
            structs.add(node.cls)
        if isinstance(node, tuple):
            for each in node:
                visit(each)
        elif isinstance(node, msgspec.inspect.Type | msgspec.inspect.Field):
            for name in node.__struct_fields__:
                visit(getattr(node, name))

    visit(msgspec.inspect.multi_type_info(types))
    return structs


def describe_fields(schema: Json, struct: type[msgspec.Struct]) -> None:
    """Move the field tables in the docstrings of `struct` and its bases to the properties of its schema."""
    properties = schema.get("properties", {})
    for each in reversed(struct.__mro__):
        text, meanings = split_docstring(each.__doc__ or "", properties)
        for name, meaning in meanings.items():
            properties[name]["description"] = meaning
    if "description" in schema:
        schema["description"] = text


def order_fields(schema: Json, struct: type[msgspec.Struct]) -> None:
    """Put required fields first, then those of the struct itself before those of its bases."""
    properties, required = schema.get("properties", {}), schema.get("required", ())
    encoded = dict(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))
    declared = [
        encoded.get(name) for each in struct.__mro__ for name in vars(each).get("__annotations__", ())
    ]
    tags = [name for name in properties if name not in declared]  # of a union: msgspec adds them
    order = [*tags, *(name for name in declared if name in required), *declared]
    if properties:
        schema["properties"] = {name: properties[name] for name in order if name in properties}


def split_docstring(docstring: str, field_names: Collection[str]) -> tuple[str, dict[str, str]]:
    """The text outside of the table, and field name -> meaning. Lines without a known field are text."""
    lines: list[str] = []
    meanings: dict[str, str] = {}
    names: list[str] = []
    for line in inspect.cleandoc(docstring).splitlines():
        entry = TABLE_LINE.fullmatch(line)
        if line.startswith(" ") and names:
            meanings |= {name: f"{meanings[name]} {line.strip()}".strip() for name in names}
        elif entry and (names := [name for name in entry["names"].split(", ") if name in field_names]):
            meanings |= dict.fromkeys(names, entry["meaning"] or "")
        else:
            names = []
            lines.append(line)
    return "\n".join(lines).strip(), meanings
