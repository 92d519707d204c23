"""What do well-known models take in memory? Told from their config.json alone, as the server does at a start.

python scripts/weigh.py           the table
python scripts/weigh.py --write   and write it to scripts/weigh/table.md
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import transformers

from scripts.weigh import table


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="keep the table")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    lines = []
    for line in table.text():
        print(line, flush=True)
        lines.append(line)
    if options.write:
        table.KEPT.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
