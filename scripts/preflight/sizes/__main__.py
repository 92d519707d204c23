"""Prints the memory that well-known models need, computed from their config.json as the server does at start.

python -m scripts.preflight.sizes           print the table
python -m scripts.preflight.sizes --write   also write it to scripts/preflight/sizes/table.md
"""

import argparse
import sys

import transformers

from scripts.preflight.sizes import table


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--write", action="store_true", help="write the table to scripts/preflight/sizes/table.md"
    )
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    lines = []
    for line in table.format_table():
        print(line, flush=True)
        lines.append(line)
    if args.write:
        table.TABLE_FILE.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
