"""Which types does the server answer for as transformers does? Every one that transformers registers, proved.

    python scripts/prove.py                   all of them, a line each: two to five minutes on one core
    python scripts/prove.py --only llama t5   these
    python scripts/prove.py --sample          the few that a test proves
    python scripts/prove.py --write           all, and write scripts/prove/table.md

Each is proved in a process of its own, with limits of time and memory. Exit code 1 when an answer is wrong.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny models: more threads only wait for each other
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import transformers

from scripts.prove import child, table, tiny
from scripts.prove.proof import Row, prove
from scripts.prove.tiny import Kind

# Of each way to run one, the quick ones.
SAMPLE = (
    "llama",
    "gpt_neo",
    "deepseek_v32",
    "mamba",
    "roberta",
    "openai-gpt",
    "musicgen",
    "prophetnet",
    "t5",
    "qwen2_audio",
)


def main() -> int:
    options = _options()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    only = SAMPLE if options.sample else options.only
    rows = list(proved(kind for kind in tiny.kinds() if not only or kind.type in only))
    for encodes, title in table.SECTIONS.items():
        print(f"{title}: {table.counts(row for row in rows if row.kind.encodes is encodes)}")
    if options.write:
        table.write(rows, table.KEPT)
    return int(any(row.wrong for row in rows))


def proved(kinds: Iterable[Kind]) -> Iterator[Row]:
    """The row of each kind, printed as it comes."""
    for kind in kinds:
        began = time.monotonic()
        row = apart(kind)
        print(f"{time.monotonic() - began:5.1f} s {table.printed(row)}", flush=True)
        yield row


def apart(kind: Kind) -> Row:
    """The row of a kind, proved in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return child.run(partial(prove, kind, Path(folder)))
        except child.Ended as ended:
            return Row(kind, why=str(ended))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--only", nargs="+", metavar="TYPE", help="types to prove, by their config's model_type"
    )
    parser.add_argument("--sample", action="store_true", help=f"prove only {', '.join(SAMPLE)}")
    parser.add_argument(
        "--write", action="store_true", help="write the table; of all types, so not with the others"
    )
    options = parser.parse_args()
    if options.write and (options.only or options.sample):
        parser.error("--write keeps the table of all types: it goes without --only and --sample")
    return options


if __name__ == "__main__":
    sys.exit(main())
