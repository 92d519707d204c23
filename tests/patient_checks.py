"""Grammars are checked for as long as it takes on a busy machine, in the tests and in their servers.

With the usual patience some are refused there because of the time that passes, and not because of the CPU
time that they take.
"""

from inference.structured_output import compile_queue, grammar_checker

MAX_S = 120.0


def extend() -> None:
    grammar_checker.MAX_WALL_S = MAX_S
    compile_queue.MAX_WAIT_S = MAX_S
