"""Benchmarks. Each workload compares engines on the same loads, in alternating order within one run.

    python -m scripts.bench                               every workload, each with its own model
    python -m scripts.bench prefix loads --rounds 5       these two
    python -m scripts.bench loads --model 0.5b            a larger model; its weights are random
    python -m scripts.bench loads --profile               also report where our engine spends its time
    python -m scripts.bench engines --engines-folder DIR  the engines that install.sh installed there
    python -m scripts.bench checkouts --checkout DIR      this version of the project and another one

A model is either the name of a shape, which gets random weights, or a folder. Progress goes to stderr, tables
go to stdout.
"""

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
import transformers

from inference.model.load.device_dtype import resolve_device
from inference.model.runner_selection.requirements import RUNNERS
from scripts.bench import machine, table
from scripts.bench.engines import ENGINES
from scripts.bench.models import SHAPES
from scripts.bench.options import AUTO, QUANTIZE, BenchOptions, dtype_for
from scripts.bench.rounds import measure
from scripts.bench.workload import BenchWorkload
from scripts.bench.workloads import WORKLOADS
from scripts.bench.workloads.checkouts import CHECKOUTS

ROOT = Path(__file__).resolve().parents[2]
ENGINES_FOLDER = os.environ.get("BENCH_ENGINES", "engines")


def main() -> None:
    args = parse_args()
    transformers.logging.set_verbosity_error()
    print("\n".join(machine.describe()))
    reports = []
    for name in args.workloads or (name for name in WORKLOADS if args.checkout or name != CHECKOUTS.name):
        for options in make_options(WORKLOADS[name], args):
            results = measure(WORKLOADS[name], options, args.rounds)
            print("\n" + "\n".join(table.format_results(results)), flush=True)
            reports.append(table.as_json(results))
    if args.json:
        report = {"machine": [*machine.describe()], "workloads": reports}
        Path(args.json).write_text(json.dumps(report, indent=1, ensure_ascii=False))


def make_options(workload: BenchWorkload, args: argparse.Namespace) -> Iterator[BenchOptions]:
    """The options of the workload, once for each quantization to measure."""
    model = args.model or (
        workload.model if workload.model in SHAPES else os.path.relpath(ROOT / workload.model)
    )
    device = resolve_device(args.device)
    options = BenchOptions(
        model=model,
        dtype=dtype_for(model, args.dtype, device),
        device=device,
        threads=args.threads,
        batch_sizes=tuple(args.batch_sizes),
        speculate=args.speculate,
        runner=args.runner,
        profile=args.profile,
        engines_folder=args.engines_folder,
        checkout=args.checkout,
        against=tuple(args.against),
        only=tuple(args.only),
    )
    yield from (replace(options, quantize=each) for each in args.quantize or workload.quantize)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "workloads", nargs="*", metavar="workload", help=f"{', '.join(WORKLOADS)} (default: all)"
    )
    parser.add_argument(
        "--model", help=f"one of {', '.join(SHAPES)}, or a folder (default: the workload's own)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument(
        "--dtype", default="auto", help="float32, bfloat16, float16; auto: the dtype that the server selects"
    )
    parser.add_argument("--device", default="auto", help="cpu or cuda; auto: a GPU if there is one")
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="CPU threads (default: %(default)s)"
    )
    parser.add_argument(
        "--batch-sizes", type=int, nargs="+", default=[8, 16], help="of transformers' generate"
    )
    parser.add_argument("--speculate", type=int, default=8, help="most draft tokens per step (default: 8)")
    parser.add_argument(
        "--runner", default=AUTO, choices=(AUTO, *RUNNERS), help="the runner of our engine (default: auto)"
    )
    parser.add_argument(
        "--quantize", nargs="+", choices=QUANTIZE, help="quantization (default: the workload's)"
    )
    parser.add_argument(
        "--engines-folder",
        default=ENGINES_FOLDER,
        help="where other engines are installed (default: %(default)s)",
    )
    parser.add_argument("--checkout", metavar="DIR", default="", help="another version of this project")
    parser.add_argument(
        "--against", nargs="+", default=[], choices=ENGINES, help="other engines to compare (default: all)"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="LOAD", help="loads of the workload engines (default: all)"
    )
    parser.add_argument("--profile", action="store_true", help="report where our engine spends its time")
    parser.add_argument("--json", metavar="FILE", help="also write the figures of every round to FILE")
    args = parser.parse_args()
    if CHECKOUTS.name in args.workloads and not Path(args.checkout, "main.py").is_file():
        parser.error("checkouts: --checkout must be the folder of another version of this project")
    if unknown := set(args.workloads) - set(WORKLOADS):
        parser.error(f"{', '.join(sorted(unknown))}: workloads are {', '.join(WORKLOADS)}")
    return args


if __name__ == "__main__":
    main()
