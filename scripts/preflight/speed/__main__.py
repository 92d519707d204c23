"""Compares the speed and the start that --check estimates with measured ones, for several shapes and formats.

    python -m scripts.preflight.speed                   all cases: some 10 minutes, writes 2 GB
    python -m scripts.preflight.speed 77m 1b            the cases of these shapes
    python -m scripts.preflight.speed --folder DIR      keep the models in DIR, and reuse those in it

The weights are random and nothing is downloaded. Measure on idle cores. Exit code 1 if an estimate is off by
more than 20 %, or if a case failed.
"""

import logging
import sys
import tempfile
from pathlib import Path

import transformers

from inference.errors import ServerError
from scripts.bench.table import format_table
from scripts.preflight.arguments import parse_args
from scripts.preflight.speed.cases import CASES, LAYERS, write_model
from scripts.preflight.speed.measure import SpeedResult, measure_case
from scripts.preflight.speed.start import NotMeasured

ALLOWED_ERROR = 0.2
STARTS = ("start s", "measured", "ratio", "others")
HEADER = ("model", "format", "tokens/s", "measured", "ratio", "first token s", "measured", "ratio", *STARTS)


def main() -> int:
    args = parse_args(__doc__, LAYERS)
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    rows, ratios = [HEADER], list[float]()
    cases = [case for case in CASES if not args.models or case.shape in args.models]
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases:
            try:
                result = measure_case(case, write_model(case, args.folder or Path(scratch)))
            except (NotMeasured, ServerError) as error:
                print(f"{case.name}: {error}", file=sys.stderr)
                continue
            row = (*case.name.split(" ", 1), *result_cells(result))
            print("  ".join(row), flush=True)
            rows.append(row)
            ratios += result.ratios
    within = sum(abs(ratio - 1) <= ALLOWED_ERROR for ratio in ratios)
    num_expected = 3 * len(cases)
    print("", *format_table(rows), sep="\n")
    print(f"{within} of {num_expected} estimates of {len(cases)} cases are within {ALLOWED_ERROR:.0%}")
    return int(within < num_expected)


def result_cells(result: SpeedResult) -> tuple[str, ...]:
    """Estimated, measured and ratio of each quantity; and what others used of the processor meanwhile."""
    of_rate, of_first, of_start = result.ratios
    estimate = result.estimate
    rates = f"{estimate.tokens_per_s:.1f}", f"{result.tokens_per_s:.1f}", f"{of_rate:.2f}"
    firsts = f"{estimate.first_token_s:.3f}", f"{result.first_token_s:.3f}", f"{of_first:.2f}"
    starts = f"{estimate.startup_s or 0:.2f}", f"{result.start_s:.2f}", f"{of_start:.2f}"
    return (*rates, *firsts, *starts, f"{estimate.other_load:.0%}")


if __name__ == "__main__":
    sys.exit(main())
