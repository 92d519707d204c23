"""Compares the server's greedy tokens with those of transformers, for every model type that it registers.

    python -m scripts.parity                   all types, one line each: two to five minutes on one core
    python -m scripts.parity --only llama t5   these types
    python -m scripts.parity --sample          the few types that the tests compare
    python -m scripts.parity --write           all types; also writes scripts/parity/table.md

Each type is compared in a child process with a time limit and a memory limit. Exit code 1 if an answer is
wrong.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # more threads make tiny models slower
import transformers

from scripts.parity import child, table, tiny_model
from scripts.parity.compare import Row, compare_type
from scripts.parity.tiny_model import ModelType

# Types that are quick to compare, at least one for each runner.
SAMPLE = (
    "llama",
    "deepseek_v32",
    "mamba",
    "roberta",
    "openai-gpt",
    "musicgen",
    "prophetnet",
    "t5",
)


def main() -> int:
    args = parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    only = SAMPLE if args.sample else args.only
    model_types = [each for each in tiny_model.list_types() if not only or each.type in only]
    rows = list(compare_all(model_types))
    for is_encoder_decoder, title in table.SECTIONS.items():
        section = [row for row in rows if row.model_type.is_encoder_decoder is is_encoder_decoder]
        print(f"{title}: {table.summarize(section)}")
    if args.write:
        table.write(rows, table.TABLE_FILE)
    return int(any(row.is_wrong for row in rows))


def compare_all(model_types: Iterable[ModelType]) -> Iterator[Row]:
    """The row of each type, printed as soon as it is known."""
    for model_type in model_types:
        start_s = time.monotonic()
        row = compare_in_child(model_type)
        print(f"{time.monotonic() - start_s:5.1f} s {table.format_row(row)}", flush=True)
        yield row


def compare_in_child(model_type: ModelType) -> Row:
    """The row of a type, compared in a child process."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return child.run(partial(compare_type, model_type, Path(folder)))
        except child.ChildFailed as error:
            return Row(model_type, reason=str(error))


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="TYPE", help="the model_type of each type to compare")
    parser.add_argument("--sample", action="store_true", help=f"compare only {', '.join(SAMPLE)}")
    parser.add_argument("--write", action="store_true", help="also write scripts/parity/table.md")
    args = parser.parse_args()
    if args.write and (args.only or args.sample):
        parser.error("--write writes the table of all types: remove --only and --sample")
    return args


if __name__ == "__main__":
    sys.exit(main())
