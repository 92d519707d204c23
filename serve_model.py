"""The entry point of a process that serves one model for another server of this project, its parent.

Reads the settings from the standard input, as startup/on_demand.py makes them. Reports are printed as JSON,
for the parent; the log has the parent's format.
"""

import pickle
import sys
from dataclasses import replace

from inference.process.closed_output import exit_with
from inference.process.parent_process import obey_parent
from main import prepare_environment, start
from settings.schema import Settings


def main(arguments: list[str]) -> int:
    """Serve until the parent ends this process. Returns the exit code: 0, or 1 if the model is refused."""
    obey_parent()
    settings: Settings = pickle.load(sys.stdin.buffer)
    sys.stdin.close()
    prepare_environment(settings)
    return start(replace(settings, json_output=True), frozenset(), is_child=True)


if __name__ == "__main__":
    exit_with(main)
