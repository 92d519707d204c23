"""Closes a JSON schema: an object that names its properties has no others, unless the schema allows them.

JSON Schema allows other properties by default. The grammars of vLLM, SGLang, llama.cpp and TGI do not: a
model that may always write one more property tends to do so.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from inference.structured_output.combined_schema import (
    BRANCHES,
    ITEMS,
    OTHERS,
    PROPERTIES,
    Combination,
    Schema,
    UnknownReference,
    find_subschemas,
    list_of,
    resolve,
)

# Keywords with schemas of the values inside: one or a list, or by name.
SCHEMAS = frozenset((*OTHERS, *ITEMS))
SCHEMAS_BY_NAME = frozenset((*PROPERTIES, "$defs", "definitions"))

# A combination repeats the names of its subschemas: the limit bounds the time, and the closed schema's size.
MAX_COST = 256 << 10  # a subschema or a name costs NODE_COST, and 1 for each character of a name
NODE_COST = 8


def close_schema(schema: Schema) -> dict[str, Any]:
    """The schema with `additionalProperties: false` in objects with `properties` that do not set it.

    Subschemas that are combined (in allOf, or anyOf beside properties) would exclude each other if each was
    closed. Such a combination is closed as a whole: it allows every property that one names or requires.
    Values that several subschemas describe stay open. A schema that combines unknown references is left
    unchanged. Raises ValueError if it nests or combines too much.
    """
    try:
        return SchemaCloser(schema).close_document()
    except UnknownReference:
        return dict(schema)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class SchemaCloser:
    """Closes one document, in which "#/…" references resolve.

    combined_ids  id() of the schemas that combinations refer to: these stay open, their users are closed
    open_ids      id() of the schemas that stay open, with all inside them
    cost          of the combinations so far
    """

    def __init__(self, root: Schema, cost: int = 0) -> None:
        self.root = root
        self.combined_ids: set[int] = set()
        self.open_ids: set[int] = set()
        self.cost = cost
        self._knows_combined = False

    def close_document(self) -> dict[str, Any]:
        """The first pass only finds the schemas that stay open."""
        self._close_object(self.root)
        self._knows_combined = True
        return self._close_object(self.root)

    def _close(self, schema: Any) -> Any:
        """Close a schema, or each of a list, that describes a value by itself."""
        if isinstance(schema, list):
            return [self._close(each) for each in schema]
        if not isinstance(schema, Mapping):
            return schema
        return self._close_embedded(schema) if "$id" in schema else self._close_object(schema)

    def _close_embedded(self, schema: Schema) -> Schema:
        """Close a document within this one, only in the second pass: each level would double the time."""
        if not self._knows_combined:
            return schema
        closer = SchemaCloser(schema, self.cost)
        closed = closer.close_document()
        self.cost = closer.cost
        return closed

    def _close_object(self, schema: Schema) -> dict[str, Any]:
        if id(schema) in self.open_ids:
            return dict(schema)
        if self._only_refers(schema):
            return self._close_inside(schema, self._close)
        opened = self._close_inside(schema, self._open)
        combination = self._combination(schema)
        is_open = id(schema) in self.combined_ids or any(keyword in schema for keyword in OTHERS)
        return opened if is_open or not combination.is_closable else close_object(opened, combination)

    def _open(self, schema: Any) -> Any:
        """A subschema of a combination: only the schemas of the values inside are closed."""
        return self._close_inside(schema, self._open) if isinstance(schema, Mapping) else schema

    def _close_inside(self, schema: Schema, close_branch: Callable[[Any], Any]) -> dict[str, Any]:
        return {key: self._close_keyword(key, value, close_branch) for key, value in schema.items()}

    def _close_keyword(self, key: str, value: Any, close_branch: Callable[[Any], Any]) -> Any:
        if key in BRANCHES:
            return [close_branch(each) for each in value] if isinstance(value, list) else value
        if key in SCHEMAS_BY_NAME and isinstance(value, Mapping):
            return {name: self._close(each) for name, each in value.items()}
        return self._close(value) if key in SCHEMAS else value

    def _only_refers(self, schema: Schema) -> bool:
        """Whether the schema names nothing itself, and one schema that it refers to describes the value."""
        branches = [keyword for keyword in (*BRANCHES, "$ref") if keyword in schema]
        if len(branches) != 1 or any(keyword in schema for keyword in (*PROPERTIES, "required")):
            return False
        if branches == ["$ref"]:
            with suppress(UnknownReference):
                return id(resolve(self.root, schema["$ref"])) not in self.combined_ids
            return True
        return branches != ["allOf"] or len(list_of(schema["allOf"])) == 1

    def _combination(self, schema: Schema) -> Combination:
        combination = Combination(find_subschemas(schema, self._combined_target))
        num_subschemas = len(combination.subschemas)
        self._pay(NODE_COST * num_subschemas)
        if num_subschemas > 1:
            self._pay(sum(NODE_COST + len(name) for name in combination.names + combination.patterns))
            for value in combination.shared_values():
                self._leave_open(value)
        return combination

    def _combined_target(self, reference: Any) -> Any:
        target = resolve(self.root, reference)
        self.combined_ids.add(id(target))
        return target

    def _leave_open(self, value: Any) -> None:
        """Add everything in a schema, and everything that it refers to, to open_ids."""
        waiting = [value]
        while waiting:
            node = waiting.pop()
            if not isinstance(node, Mapping | list) or id(node) in self.open_ids:
                continue
            self.open_ids.add(id(node))
            waiting += node.values() if isinstance(node, Mapping) else node
            if isinstance(node, Mapping) and isinstance(node.get("$ref"), str):
                waiting.append(resolve(self.root, node["$ref"]))

    def _pay(self, cost: int) -> None:
        self.cost += cost
        if self.cost > MAX_COST:
            raise ValueError("it combines too many subschemas")


def close_object(schema: dict[str, Any], combination: Combination) -> dict[str, Any]:
    """Only the names and patterns of the combination are allowed."""
    closed = schema | {"properties": dict.fromkeys(combination.names, True) | schema.get("properties", {})}
    if combination.patterns:
        patterns = dict.fromkeys(combination.patterns, True)
        closed["patternProperties"] = patterns | schema.get("patternProperties", {})
    return closed | {"additionalProperties": False}
