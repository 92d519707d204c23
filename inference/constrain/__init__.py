"""Text that must match: a schema, a pattern, a list of choices or a grammar becomes a mask over token ids.

`Compiler` makes matchers for the sampler; `tool_constraint` says what a forced tool call looks like.
"""

from inference.constrain.compiler import Compiler, Matcher
from inference.constrain.tools import tool_constraint

__all__ = ["Compiler", "Matcher", "tool_constraint"]
