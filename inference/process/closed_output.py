"""Ends a program whose output nobody reads any more, as with `| head`, without a traceback.

Prints every character, also where the encoding of the output has few.
"""

import io
import os
import sys
from collections.abc import Callable

CLOSED_OUTPUT = 128 + 13  # the shell's code for a program that SIGPIPE ended


def exit_with(main: Callable[[list[str]], int]) -> None:
    """Run `main` with the arguments of the command line, and exit with its code, or with CLOSED_OUTPUT."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # in a code page of Windows, if it is no console
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter writes what is left when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = CLOSED_OUTPUT
    sys.exit(code)
