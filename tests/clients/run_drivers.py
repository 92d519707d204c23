"""Runs drivers one after another in a process of a client's environment, which imports the client once.

Reads lines of JSON: a driver's path and its arguments. Writes a line of JSON for each: its output, or the
traceback of its error.
"""

import contextlib
import io
import json
import os
import runpy
import sys
import traceback


def main() -> None:
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)  # what a client prints on its own is no reply
        for line in sys.stdin:
            print(json.dumps(run(*json.loads(line))), file=replies, flush=True)


def run(driver: str, *arguments: str) -> dict[str, str]:
    sys.argv = [driver, *arguments]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(driver, run_name="__main__")
    except Exception:
        return {"error": traceback.format_exc()}
    return {"printed": printed.getvalue()}


if __name__ == "__main__":
    main()
