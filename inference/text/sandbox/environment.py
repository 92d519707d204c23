"""Compiles chat templates so that each rendering stays within a budget, and puts that into transformers.

A template of a model's folder is third-party code: an endless loop, or a text of ten gigabytes, must not stop
the server. What a template within the budget writes does not change by a byte.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from jinja2 import Template, nodes, pass_context
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, _PassArg
from transformers.utils import chat_template_utils

from inference.errors import named_error
from inference.text.sandbox.budget import Budget, TemplateLimit
from inference.text.sandbox.costs import (
    LAZY_FILTERS,
    OPERATOR_COSTS,
    TEST_COSTS,
    Cost,
    filter_cost,
    integer_cost,
    materialized,
    method_cost,
)
from inference.text.sandbox.instrument import KEY, STEP, TEXT, VALUE, instrument
from inference.text.sandbox.sizes import SIMPLE_TYPES, is_iterator, size, tree_chars, tree_size

MAX_SOURCE_CHARS = 1 << 17  # compiling takes up to 20 µs a character
MAX_INPUT_VALUES = 1 << 22
MAX_NESTED_ITERATORS = 50
SMALL_KEYS = SIMPLE_TYPES | {slice}
# Callables whose arguments are only handed on.
OWN_CALLABLES = (Macro, LoopContext, BlockReference)


class BoundedContext(Context):
    """The variables of one rendering, and its budget."""

    budget: Budget

    def __init__(self, environment: Any, parent: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(environment, parent, *args, **kwargs)
        tree = tree_size([value for value in parent.values() if not callable(value)], MAX_INPUT_VALUES)
        self.budget = Budget(tree.values, tree.chars)

    def derived(self, locals: dict[str, Any] | None = None) -> "BoundedContext":
        context = super().derived(locals)
        assert isinstance(context, BoundedContext)
        context.budget = self.budget
        self.budget.charge(1, len(context.parent))
        return context


class BoundedTemplate(Template):
    """A compiled template that keeps nothing of what it has rendered."""

    def render(self, *args: Any, **kwargs: Any) -> str:
        context = self.new_context(dict(*args, **kwargs))
        try:
            return self.environment.concat(self.root_render_func(context))
        except Exception:
            self.environment.handle_exception()
        finally:
            context.vars.clear()  # its macros refer to the context, and thereby to the whole conversation


class BoundedIterator:
    """An iterator that a filter has returned; each item is a step."""

    def __init__(self, budget: Budget, iterator: Iterator[Any], depth: int) -> None:
        self.budget = budget
        self.iterator = iterator
        self.depth = depth

    def __iter__(self) -> "BoundedIterator":
        return self

    def __next__(self) -> Any:
        self.budget.charge(1)
        return next(self.iterator)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox in which transformers compiles chat templates, with budgets."""

    intercepted_binops = frozenset(OPERATOR_COSTS)
    context_class = BoundedContext
    template_class = BoundedTemplate

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.finalize = charge_text
        del self.globals["lipsum"]  # writes filler text of any length

    def from_string(self, source: Any, *args: Any, **kwargs: Any) -> Template:
        if len(source) > MAX_SOURCE_CHARS:
            raise TemplateLimit(f"it has {len(source)} characters, its limit is {MAX_SOURCE_CHARS}")
        wrap_all(self.filters, bounded_filter)
        wrap_all(self.tests, bounded_test)
        self.filters |= {STEP: charge_step, VALUE: charge_value, TEXT: charge_text, KEY: charge_key}
        try:
            return super().from_string(source, *args, **kwargs)
        except (SyntaxError, RecursionError, MemoryError) as error:  # of Python, on what Jinja has written
            raise TemplateLimit(f"it is too large or too deeply nested: {named_error(error)}") from None

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        return super()._generate(instrument(source), *args, **kwargs)

    def call_binop(self, context: Any, operator: str, first: Any, second: Any) -> Any:
        if type(first) is str and type(second) is str and operator == "+":  # the most frequent one
            context.budget.charge(1, len(first) + len(second))
            return first + second
        context.budget.charge(1, OPERATOR_COSTS[operator](first, second))
        return self.binop_table[operator](first, second)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        budget = context.budget
        if isinstance(obj, OWN_CALLABLES) or is_namespace(obj):
            budget.charge(1)
        else:
            method = getattr(obj, "__wrapped__", obj)  # of str.format, which the sandbox replaces
            name = getattr(method, "__name__", "")
            if name == "join":
                args = tuple(map(materialized, args))
            receiver = getattr(method, "__self__", None)
            budget.charge(1, method_cost(name, receiver, (*args, *kwargs.values())))
        return bounded_result(budget, super().call(context, obj, *args, **kwargs))

    def getitem(self, obj: Any, argument: Any) -> Any:
        if type(argument) not in SMALL_KEYS:
            tree_size(argument)
        return super().getitem(obj, argument)


def is_namespace(obj: Any) -> bool:
    return isinstance(obj, type) and issubclass(obj, Namespace)


def bounded_result(budget: Budget, result: Any, depth: int = 0) -> Any:
    """The result of a call or a filter, charged. An iterator is charged as it is read."""
    kind = type(result)
    if kind is str:
        budget.charge(0, len(result))
    elif kind is int:
        integer_cost(result.bit_length())
    elif is_iterator(result) and kind is not BoundedIterator:
        if depth > MAX_NESTED_ITERATORS:
            raise TemplateLimit(f"it nests more than {MAX_NESTED_ITERATORS} filters without a list")
        return BoundedIterator(budget, result, depth)
    elif result is not None:
        budget.charge(0, size(result))
    return result


Function = Callable[..., Any]


def wrap_all(functions: dict[str, Any], wrap: Callable[[str, Function], Function]) -> None:
    for name, function in functions.items():
        functions[name] = wrap(name, function)


def bounded_filter(name: str, function: Function) -> Function:
    """The filter, which charges its value and its result."""
    is_lazy = name in LAZY_FILTERS
    pass_argument = implicit_argument(function)

    @pass_context
    @wraps(function)
    def call(context: BoundedContext, value: Any = "", /, *args: Any, **kwargs: Any) -> Any:
        if not is_lazy:
            value = materialized(value)
        context.budget.charge(1, filter_cost(name, value, (*args, *kwargs.values())))
        result = function(*pass_argument(context), value, *args, **kwargs)
        depth = value.depth + 1 if type(value) is BoundedIterator else 0
        return bounded_result(context.budget, result, depth)

    return call


def bounded_test(name: str, function: Function) -> Function:
    """The test, which charges what it compares; tests that compare nothing stay as they are."""
    cost: Cost | None = TEST_COSTS.get(name)
    if cost is None:
        return function

    @pass_context
    @wraps(function)
    def call(context: BoundedContext, value: Any, /, *args: Any) -> Any:
        context.budget.charge(1, cost(value, args))
        return function(value, *args)

    return call


def implicit_argument(function: Function) -> Callable[[BoundedContext], tuple[Any, ...]]:
    """What Jinja passes to the function before its value."""
    match _PassArg.from_obj(function):
        case _PassArg.context:
            return lambda context: (context,)
        case _PassArg.eval_context:
            return lambda context: (context.eval_ctx,)
        case _PassArg.environment:
            return lambda context: (context.environment,)
        case _:
            return lambda context: ()


@pass_context
def charge_step(context: BoundedContext, num_chars: int) -> bool:
    context.budget.charge(1, abs(num_chars))
    return True


@pass_context
def charge_value(context: BoundedContext, value: Any) -> Any:
    context.budget.charge(1, size(value))
    return value


@pass_context
def charge_text(context: BoundedContext, value: Any) -> Any:
    context.budget.charge(1, len(value) if type(value) is str else tree_chars(value))
    return value


@pass_context
def charge_key(context: BoundedContext, value: Any) -> Any:
    """A key is hashed with all that it contains."""
    context.budget.charge(1, tree_chars(value))
    return value


def bound_chat_templates() -> None:
    """Make transformers compile all chat templates within budgets, with its own filters and functions."""
    chat_template_utils.ImmutableSandboxedEnvironment = BoundedEnvironment
    chat_template_utils._compile_jinja_template.cache_clear()
