"""Structured output: token masks from a JSON schema, regular expression, list of choices or grammar.

GrammarCompiler makes matchers for the sampler; tool_constraint returns the constraint for a forced tool call.
"""

from inference.structured_output.compiler import GrammarCompiler, GrammarMatcher
from inference.structured_output.tool_grammars import tool_constraint

__all__ = ["GrammarCompiler", "GrammarMatcher", "tool_constraint"]
