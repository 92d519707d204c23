"""How long does the verdict take, of the largest models? From the start of the process to the printed table.

    python scripts/verdict.py                     all shapes, three times each
    python scripts/verdict.py deepseek bloom      those with such a word in their names
    python scripts/verdict.py --delay 0.05        of a Hub that answers after 50 ms

A Hub on this machine has their config.json and the headers of their shards, no weights, and answers each
request after 0.1 s. The median is told. Exit code 1 where a verdict takes 5 s or more, or 2 MB.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import transformers

from scripts.verdict.files import repository
from scripts.verdict.hub import running
from scripts.verdict.shapes import LARGE
from scripts.verdict.timed import CELLS, row, timed, too_much
from scripts.weigh.table import bars


def main() -> int:
    options = parse()
    transformers.logging.set_verbosity_error()
    print(bars(CELLS))
    print(bars("---" for _ in CELLS), flush=True)
    missed = False
    for shape in LARGE:
        if options.words and not any(word.lower() in shape.name.lower() for word in options.words):
            continue
        files = repository(shape)
        with running(shape.name, files, options.delay) as hub, tempfile.TemporaryDirectory() as scratch:
            told = timed(hub, Path(scratch), options.times)
        shards = sum(name.endswith(".safetensors") for name in files)
        print(row(shape.name, shards, told), flush=True)
        missed |= too_much(told)
    return int(missed)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="word", help="of a model's name; none: all models")
    parser.add_argument(
        "--delay", type=float, default=0.1, help="seconds that an answer takes (default: 0.1)"
    )
    parser.add_argument("--times", type=int, default=3, help="how often each is asked (default: 3)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
