"""Times `main.py --check` for the largest models, from the start of the process to the printed table.

    python -m scripts.preflight.latency                     all models, three times each
    python -m scripts.preflight.latency deepseek bloom      models with one of these words in their names
    python -m scripts.preflight.latency --delay 0.05        the Hub answers after 50 ms

A local Hub serves each model's config.json and the headers of its shards, without weights. It answers each
request after 0.1 s. The median is printed. Exit code 1 if a check takes 5 s, or transfers 2 MB, or more.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import transformers

from scripts.markdown import markdown_header
from scripts.preflight.latency.files import make_repository
from scripts.preflight.latency.hub import running_hub
from scripts.preflight.latency.shapes import LARGE_SHAPES
from scripts.preflight.latency.timing import COLUMNS, exceeds_limits, time_checks, timing_row


def main() -> int:
    args = parse_args()
    transformers.logging.set_verbosity_error()
    print(*markdown_header(COLUMNS), sep="\n", flush=True)
    is_too_slow = False
    for shape in LARGE_SHAPES:
        if args.words and not any(word.lower() in shape.name.lower() for word in args.words):
            continue
        files = make_repository(shape)
        with running_hub(shape.name, files, args.delay) as hub, tempfile.TemporaryDirectory() as scratch:
            timing = time_checks(hub, Path(scratch), args.times)
        shards = sum(name.endswith(".safetensors") for name in files)
        print(timing_row(shape.name, shards, timing), flush=True)
        is_too_slow |= exceeds_limits(timing)
    return int(is_too_slow)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="word", help="in a model's name (default: all models)")
    parser.add_argument(
        "--delay", type=float, default=0.1, help="seconds that the Hub takes to answer (default: 0.1)"
    )
    parser.add_argument("--times", type=int, default=3, help="checks of each model (default: 3)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
