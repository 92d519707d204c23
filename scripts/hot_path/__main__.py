"""Counts the project files, lines and calls that a streamed request executes, from socket to logits and back.

    python -m scripts.hot_path                                       every runner and dialect
    python -m scripts.hot_path --runner fused --dialect openai-chat --files
    python -m scripts.hot_path --json

For each runner, the real server runs in this process with models/demo. Each dialect's request is sent twice
to warm up, and then measured. Columns: project files with an executed line, all lines of these files,
executed lines, functions entered, Python calls; of the files, those of the engine and its runners, from the
submission to the sampler, and their lines.
"""

import argparse
import json
import sys
from collections.abc import Sequence

import torch  # noqa: F401 - imported before the recorder is installed, which slows imports down
import transformers  # noqa: F401

from scripts.hot_path.measurement import Measurement, as_json, file_list, function_list, table
from scripts.hot_path.recorder import ExecutionRecorder, installed
from scripts.hot_path.server import measure
from scripts.hot_path.targets import DIALECTS, RUNNERS


def main() -> int:
    options = parse()
    with installed(ExecutionRecorder()) as recorder:
        measurements = [
            each for runner in options.runner for each in measure(runner, options.dialect, recorder)
        ]
    if options.json:
        print(json.dumps([as_json(each) for each in measurements]))
        return 0
    print_report(measurements, with_files=options.files, with_functions=options.functions)
    return 0


def print_report(
    measurements: Sequence[Measurement], *, with_files: bool = False, with_functions: bool = False
) -> None:
    for each in measurements:
        if with_files:
            print(*file_list(each), "", sep="\n")
        if with_functions:
            print(*function_list(each), "", sep="\n")
    print(*table(measurements), sep="\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runner", nargs="+", choices=RUNNERS, default=RUNNERS, help="(default: all)")
    parser.add_argument(
        "--dialect", nargs="+", choices=DIALECTS, default=list(DIALECTS), help="(default: all)"
    )
    parser.add_argument("--files", action="store_true", help="list each file with its executed lines")
    parser.add_argument(
        "--functions", action="store_true", help="list each function with the number of its calls"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
