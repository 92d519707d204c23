"""Structured output: token masks from a JSON schema, regular expression, list of choices or grammar.

GrammarCompiler makes matchers for the sampler; tool_constraint returns the constraint for a forced tool call;
MatcherAfterReasoning lets a matcher's grammar begin behind reasoning.
"""

from inference.structured_output.after_reasoning import MatcherAfterReasoning, ReasoningTokens
from inference.structured_output.compile_queue import CompileQueue
from inference.structured_output.compiler import GrammarCompiler, GrammarMatcher
from inference.structured_output.grammar_checker import GrammarChecker
from inference.structured_output.tool_grammars import tool_constraint

__all__ = [
    "CompileQueue",
    "GrammarChecker",
    "GrammarCompiler",
    "GrammarMatcher",
    "MatcherAfterReasoning",
    "ReasoningTokens",
    "tool_constraint",
]
