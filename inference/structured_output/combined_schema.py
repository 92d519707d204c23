"""The subschemas that describe one value: a schema itself, and those in its allOf, anyOf, oneOf and $ref.

Knows the properties that they name; closed_schema.py closes them.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

Schema = Mapping[str, Any]

ALTERNATIVES = ("anyOf", "oneOf")
BRANCHES = ("allOf", *ALTERNATIVES)
# Keywords that say which other properties an object may have.
OTHERS = ("additionalProperties", "unevaluatedProperties")
PROPERTIES = ("properties", "patternProperties")
ITEMS = ("items", "prefixItems", "additionalItems")
MAX_DIGITS = 9  # of an index in a reference


class UnknownReference(Exception):
    """A reference to an anchor or to another document, of which the properties are unknown."""


class Subschema(NamedTuple):
    """One of the schemas that describe a value.

    alternative  (id of an anyOf or oneOf, index in it) if it belongs to one: only one index applies
    """

    schema: Schema
    alternative: tuple[int, int] | None


class Combination:
    """The subschemas of a schema, in the order in which they are written; the first is the schema itself.

    names     the properties that they name or require
    patterns  the keys of patternProperties
    """

    def __init__(self, subschemas: list[Subschema]) -> None:
        self.subschemas = subschemas
        schemas = [each.schema for each in subschemas]
        named = [name for schema in schemas for name in mapping_of(schema.get("properties"))]
        required = [name for schema in schemas for name in list_of(schema.get("required"))]
        self.names = list(dict.fromkeys([*named, *(name for name in required if isinstance(name, str))]))
        patterns = [pattern for schema in schemas for pattern in mapping_of(schema.get("patternProperties"))]
        self.patterns = list(dict.fromkeys(patterns))

    @property
    def is_closable(self) -> bool:
        """Whether one has properties, none sets what others are allowed, and the names are enough."""
        schemas = [each.schema for each in self.subschemas]
        named = [schema[keyword] for schema in schemas for keyword in PROPERTIES if keyword in schema]
        if not all(isinstance(each, Mapping) for each in named):
            return False
        allows_others = any(schema.get(key, False) is not False for schema in schemas for key in OTHERS)
        min_counts = [n for schema in schemas if isinstance(n := schema.get("minProperties"), int)]
        has_enough = bool(self.patterns) or max(min_counts, default=0) <= len(self.names)
        return any("properties" in schema for schema in schemas) and has_enough and not allows_others

    def shared_values(self) -> list[Any]:
        """The schemas of properties and items that several subschemas describe at once."""
        values: dict[tuple[str, str], list[tuple[Any, tuple[int, int] | None]]] = defaultdict(list)
        for schema, alternative in self.subschemas:
            for name, value in mapping_of(schema.get("properties")).items():
                values["properties", name].append((value, alternative))
            for keyword in ITEMS:
                if keyword in schema:
                    values[keyword, ""].append((schema[keyword], alternative))
        shared = [uses for uses in values.values() if len(uses) > 1 and not are_alternatives(uses)]
        return [value for uses in shared for value, _ in uses]


def are_alternatives(uses: list[tuple[Any, tuple[int, int] | None]]) -> bool:
    """Whether each use belongs to another branch of the same anyOf or oneOf."""
    alternatives = {alternative for _, alternative in uses if alternative}
    return len(alternatives) == len(uses) and len({list_id for list_id, _ in alternatives}) == 1


def find_subschemas(schema: Schema, target_of: Callable[[Any], Any]) -> list[Subschema]:
    """`target_of` returns what a $ref refers to. Raises UnknownReference also for one with its own $id."""
    subschemas: list[Subschema] = []
    waiting, visited_ids = [Subschema(schema, None)], {id(schema)}
    while waiting:
        subschemas.append(waiting.pop())
        for branch in reversed(branches_of(subschemas[-1], target_of)):
            if not isinstance(branch.schema, Mapping) or id(branch.schema) in visited_ids:
                continue
            if "$id" in branch.schema:
                raise UnknownReference
            visited_ids.add(id(branch.schema))
            waiting.append(branch)
    return subschemas


def branches_of(subschema: Subschema, target_of: Callable[[Any], Any]) -> list[Subschema]:
    schema, alternative = subschema
    branches: list[Subschema] = []
    for keyword in BRANCHES:
        branch_list = list_of(schema.get(keyword))
        opens = keyword in ALTERNATIVES and alternative is None
        branches += [
            Subschema(each, (id(branch_list), index) if opens else alternative)
            for index, each in enumerate(branch_list)
        ]
    return [*branches, Subschema(target_of(schema["$ref"]), alternative)] if "$ref" in schema else branches


def resolve(root: Schema, reference: Any) -> Any:
    """The schema in `root` that "#" or "#/…" refers to. Raises UnknownReference for another reference."""
    if not isinstance(reference, str) or (reference != "#" and not reference.startswith("#/")):
        raise UnknownReference
    target: Any = root
    for step in unquote(reference).split("/")[1:]:
        target = child_of(target, step.replace("~1", "/").replace("~0", "~"))
    return target


def child_of(value: Any, key: str) -> Any:
    """The member of an object or list. Raises UnknownReference."""
    if isinstance(value, Mapping) and key in value:
        return value[key]
    is_index = key.isascii() and key.isdecimal() and len(key) <= MAX_DIGITS
    if isinstance(value, list) and is_index and int(key) < len(value):
        return value[int(key)]
    raise UnknownReference


def list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def mapping_of(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
