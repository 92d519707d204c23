"""Memory as it was predicted before a model was there, and as the kernel counted it: a table of many models.

    python scripts/memory.py                  all of them, one after the other; 13 models are written, 9 GB
    python scripts/memory.py llama qwen2      the cases of these models
    python scripts/memory.py --folder F       keep the models in F, and use those that are there

The weights are random; nothing is downloaded, and nothing that this machine has learned is used. RAM is the
most that was resident, the pages of files included: until the model was ready, and up to the end of the first
batch in which every row has the whole context. Exit code 1 where a prediction is off by more than 5 %, or
could not be compared.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.bench.table import table
from scripts.memory.cases import CASES, SHAPES, Case, written
from scripts.memory.measured import Measured, measured
from scripts.memory.told import HEAD, row

ALLOWED = 0.05


def main() -> int:
    options = parse()
    lines, wrong = [HEAD], False
    with tempfile.TemporaryDirectory() as scratch:
        for case, found in all_measured(options, Path(scratch)):
            if found is None:
                wrong = True
                continue
            line = row(case, found)
            print("  ".join(line), flush=True)
            lines.append(line)
            wrong |= max(abs(found.loading.error), abs(found.serving.error)) > ALLOWED
    print("\n" + "\n".join(table(lines)))
    return int(wrong)


def all_measured(options: argparse.Namespace, scratch: Path) -> Iterator[tuple[Case, Measured | None]]:
    """One case after the other, None of one that was not served to its end, the reason told. A model that is
    not kept goes when its cases are done."""
    folder = options.folder or scratch
    for shape in options.models or SHAPES:
        model = written(shape, folder)
        for case in CASES:
            if case.shape == shape:
                yield case, served(case, model, scratch)
        if options.folder is None:
            shutil.rmtree(model)


def served(case: Case, model: Path, scratch: Path) -> Measured | None:
    try:
        return measured(case, model, scratch)
    except TimeoutError as error:
        print(f"{case.name}: {error}", file=sys.stderr)
        return None


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="model", help=f"of {', '.join(SHAPES)}; none: all")
    parser.add_argument("--folder", type=Path, help="where models are kept (default: nowhere)")
    options = parser.parse_args()
    if unknown := set(options.models) - set(SHAPES):
        parser.error(f"{', '.join(sorted(unknown))}: models are {', '.join(SHAPES)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
