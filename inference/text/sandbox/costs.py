"""Predicts the characters that an operator, a method, a filter or a test of a template writes or reads.

Computed from the operands, before the operation runs: one multiplication can fill all memory.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inference.text.sandbox.budget import TemplateLimit
from inference.text.sandbox.sizes import NUMBER_CHARS, is_iterator, size, tree_chars, tree_size

Arguments = Sequence[Any]
Cost = Callable[[Any, Arguments], int]  # of the value to work on, and the arguments

MAX_INTEGER_BITS = 4096
SLOW_CHARS = 1 << 10  # a slow function of a text this long costs its length, of a longer one n² / SLOW_CHARS
LONG_NUMBER = re.compile(r"\d{7}")
NUMBER = re.compile(r"\d+")
NESTED_FIELD = re.compile(r"\{[^{}]*\{")
STAR_WIDTH = re.compile(r"%[^%a-zA-Z]*\*")
# Their value is consumed at once: an iterator is read into a list before, and measured.
LAZY_FILTERS = frozenset(
    ("attr", "batch", "default", "d", "first", "list", "map", "reject", "rejectattr", "select", "selectattr")
) | {"slice", "sum", "length", "count", "items", "last", "random", "reverse", "float", "int", "string"}


def arguments_cost(arguments: Arguments) -> int:
    """The size of the arguments; an integer may be a width, and counts as much as its value."""
    return sum(abs(each) if isinstance(each, int) else tree_chars(each) for each in arguments)


def linear_cost(value: Any, arguments: Arguments) -> int:
    return tree_chars(value) + arguments_cost(arguments)


def shallow_cost(value: Any, arguments: Arguments) -> int:
    """For functions that neither write, copy nor compare the items of a container."""
    return size(value) + sum(map(size, arguments))


def counted_cost(value: Any, arguments: Arguments) -> int:
    """For functions that add as many items as an argument says."""
    return size(value) + arguments_cost(arguments)


def product_cost(value: Any, arguments: Arguments) -> int:
    """For functions that may replace each character by an argument."""
    return (tree_chars(value) + 1) * (arguments_cost(arguments) + 1)


def slow_cost(value: Any, arguments: Arguments) -> int:
    """For functions that take quadratic time."""
    chars = linear_cost(value, arguments)
    return chars + chars * chars // SLOW_CHARS


def constant_cost(value: Any, arguments: Arguments) -> int:
    return NUMBER_CHARS


def replace_cost(value: Any, arguments: Arguments) -> int:
    text, old, new = as_text(value), *map(as_text, (*arguments, "", "")[:2])
    return len(text) + text.count(old) * len(new)


def join_cost(separator: Any, arguments: Arguments) -> int:
    items = arguments[0] if arguments else ()
    num_items = len(items) if hasattr(items, "__len__") else 0
    return tree_chars(items) + num_items * tree_chars(separator)


def join_filter_cost(value: Any, arguments: Arguments) -> int:
    return join_cost(arguments[0] if arguments else "", (value,)) + arguments_cost(arguments[1:])


def indent_cost(value: Any, arguments: Arguments) -> int:
    text = as_text(value)
    return len(text) + (text.count("\n") + 1) * (arguments_cost(arguments) + 4)


def tojson_cost(value: Any, arguments: Arguments) -> int:
    tree = tree_size(value)
    return tree.chars + tree.values * tree.levels * arguments_cost(arguments)


def sum_cost(value: Any, arguments: Arguments) -> int:
    """sum(start=[]) copies the list for each item."""
    containers = [each for each in arguments if isinstance(each, list | tuple)]
    return size(value) * tree_chars(value) if containers else size(value)


def percent_cost(value: Any, arguments: Arguments) -> int:
    """text % arguments, and the filter `format`. Raises TemplateLimit."""
    return format_cost(value, arguments, "%", STAR_WIDTH)


def brace_cost(value: Any, arguments: Arguments) -> int:
    """text.format(). Raises TemplateLimit."""
    return format_cost(value, arguments, "{", NESTED_FIELD)


def format_cost(value: Any, arguments: Arguments, field: str, computed_width: re.Pattern[str]) -> int:
    text = as_text(value)
    if LONG_NUMBER.search(text) or computed_width.search(text):
        raise TemplateLimit("it formats a text with a width that has seven digits or is computed")
    widths = sum(map(int, NUMBER.findall(text)))
    return len(text) + widths + text.count(field) * sum(map(tree_chars, arguments))


def as_text(value: Any) -> str:
    """The value as the filters convert it. Raises TemplateLimit."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    tree_chars(value)
    return str(value)


def multiply_cost(first: Any, second: Any) -> int:
    if isinstance(first, int) and isinstance(second, int):
        return integer_cost(first.bit_length() + second.bit_length())
    if isinstance(second, int):
        return size(first) * max(second, 0)
    return size(second) * max(first, 0) if isinstance(first, int) else NUMBER_CHARS


def power_cost(first: Any, second: Any) -> int:
    if isinstance(first, int) and isinstance(second, int) and second > 0:
        return integer_cost(first.bit_length() * second)
    return NUMBER_CHARS


def integer_cost(num_bits: int) -> int:
    if num_bits > MAX_INTEGER_BITS:
        raise TemplateLimit(f"it computes an integer of more than {MAX_INTEGER_BITS} bits, its limit")
    return num_bits


def modulo_cost(first: Any, second: Any) -> int:
    return percent_cost(first, (second,)) if isinstance(first, str | bytes) else NUMBER_CHARS


def compare_cost(first: Any, arguments: Arguments) -> int:
    """A comparison ends with the smaller operand: measuring one of them is enough."""
    return tree_chars(first)


def contains_cost(first: Any, arguments: Arguments) -> int:
    """first in arguments[0]"""
    items = arguments[0] if arguments else ()
    if isinstance(first, str) or not hasattr(items, "__len__"):
        return tree_chars(first) + size(items)
    return tree_chars(first) * (len(items) + 1)


OPERATOR_COSTS: Mapping[str, Callable[[Any, Any], int]] = {
    "+": lambda first, second: size(first) + size(second),
    "*": multiply_cost,
    "**": power_cost,
    "%": modulo_cost,
}
METHOD_COSTS: Mapping[str, Cost] = {
    "decode": slow_cost,
    "encode": slow_cost,
    "expandtabs": product_cost,
    "format": brace_cost,
    "format_map": brace_cost,
    "join": join_cost,
    "replace": replace_cost,
    "translate": product_cost,
}
FILTER_COSTS: Mapping[str, Cost] = {
    **dict.fromkeys(("default", "d", "float", "int"), constant_cost),
    **dict.fromkeys(("attr", "count", "first", "items", "last", "length", "list"), shallow_cost),
    **dict.fromkeys(("map", "random", "reject", "rejectattr", "reverse"), shallow_cost),
    **dict.fromkeys(("select", "selectattr"), shallow_cost),
    **dict.fromkeys(("batch", "slice"), counted_cost),
    **dict.fromkeys(("pprint", "striptags", "urlize", "wordwrap", "xmlattr"), slow_cost),
    "format": percent_cost,
    "indent": indent_cost,
    "join": join_filter_cost,
    "replace": replace_cost,
    "sum": sum_cost,
    "tojson": tojson_cost,
}
TEST_COSTS: Mapping[str, Cost] = {
    **dict.fromkeys(("==", "eq", "equalto", "!=", "ne"), compare_cost),
    **dict.fromkeys((">", "gt", "greaterthan", "ge", ">=", "<", "lt", "lessthan", "<=", "le"), compare_cost),
    "in": contains_cost,
}


def filter_cost(name: str, value: Any, arguments: Arguments) -> int:
    return FILTER_COSTS.get(name, linear_cost)(value, arguments)


def method_cost(name: str, receiver: Any, arguments: Arguments) -> int:
    if isinstance(receiver, str | bytes):
        return METHOD_COSTS.get(name, linear_cost)(receiver, arguments)
    if isinstance(receiver, int | float):
        return linear_cost(receiver, arguments)
    return size(receiver) + sum(map(tree_chars, arguments))


def materialized(value: Any) -> Any:
    return list(value) if is_iterator(value) else value
