"""The process of GrammarChecker: compiles grammars within limits of time and memory. A script.

Reads a line of JSON [grammar, limits] for each grammar, and writes a line [CPU seconds, error or ""].
Imports nothing of this server: it starts in a tenth of a second and needs 30 MB.
"""

import json
import math
import sys
import time
from contextlib import suppress
from typing import Any

from llguidance import LLMatcher, LLParserLimits

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]


def main(max_bytes: int, max_seconds: float) -> None:
    limit_process(max_bytes)
    for line in sys.stdin.buffer:
        limit_seconds(max_seconds)
        grammar, limits = json.loads(line)
        started_at = time.process_time()
        error = LLMatcher.validate_grammar(grammar, limits=LLParserLimits(**limits))
        send_result([time.process_time() - started_at, "" if error.startswith("WARNING") else error])


def limit_process(max_bytes: int) -> None:
    """Take at most `max_bytes` more of memory than now."""
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        set_limit(resource.RLIMIT_AS, size_bytes() + max_bytes)


def size_bytes() -> int:
    """The process's address space; 0 where the system does not tell: the limit is then stricter."""
    try:
        with open("/proc/self/statm", encoding="utf-8") as statm:
            return int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 512 << 20


def limit_seconds(max_seconds: float) -> None:
    """End the process after this much more of CPU time, should the server not do it."""
    if resource is not None:
        set_limit(resource.RLIMIT_CPU, math.ceil(time.process_time() + max_seconds) + 1)


def set_limit(kind: int, value: int) -> None:
    """Set the soft limit, as far as the hard limit allows."""
    hard_limit = resource.getrlimit(kind)[1]
    soft_limit = value if hard_limit == resource.RLIM_INFINITY else min(value, hard_limit)
    with suppress(ValueError, OSError):  # macOS may refuse one; GrammarChecker watches both
        resource.setrlimit(kind, (soft_limit, hard_limit))


def send_result(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
