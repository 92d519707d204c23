"""Tests and measurements for a machine with a GPU, in sections. A table is printed at the end.

    python -m scripts.gpu                                      everything, with the shape of Llama 3.1 8B
    python -m scripts.gpu roofline profile                     these sections
    python -m scripts.gpu --device cpu --model tiny --sample   a test run without a GPU

Needs this checkout, torch, transformers, psutil and pytest; no network and no set-up. The weights are random.
Sections run one after the other, each with all the memory. Exit code 1 if a section failed or a result is
wrong.
"""

import argparse
import gc
import os
import sys
import traceback

import torch
import transformers

from inference.model.load.device_dtype import resolve_device
from scripts.bench import machine
from scripts.bench.models import SHAPES, num_parameters
from scripts.bench.options import BenchOptions, dtype_for
from scripts.bench.table import format_table
from scripts.gpu import correct, memory, overlap, profile, roofline, versus_transformers
from scripts.gpu.section import ReportRow, SectionOptions, WrongResult

SECTIONS = {
    "correct": correct.measure_section,
    "roofline": roofline.measure_section,
    "overlap": overlap.measure_section,
    "transformers": versus_transformers.measure_section,
    "profile": profile.measure_section,
    "memory": memory.measure_section,
}
BY_SIZE = ("8b", "0.5b", "77m")
WEIGHT_COPIES = 3  # that must fit into memory: two engines, and as much again for caches and activations


def main() -> int:
    args = parse_args()
    transformers.logging.set_verbosity_error()
    print("\n".join(machine.describe()), flush=True)
    options = SectionOptions(make_options(args), args.rounds, args.sample)
    rows: list[ReportRow] = [("section", "figure", "value", "")]
    failed = False
    for name in args.sections or SECTIONS:
        print(f"\n{name}", flush=True)
        try:
            rows += [(name, *line) for line in SECTIONS[name](options)]
        except Exception as error:  # the other sections still run
            if not isinstance(error, WrongResult):
                traceback.print_exc()
            rows.append((name, "failed", type(error).__name__, str(error).partition("\n")[0][:80]))
            failed = True
        gc.collect()
        if options.bench.device == "cuda":
            torch.cuda.empty_cache()
    print("\n" + "\n".join(format_table(rows)))
    return int(failed)


def make_options(args: argparse.Namespace) -> BenchOptions:
    device = resolve_device(args.device)
    model = args.model or largest_shape(device)
    dtype = dtype_for(model, args.dtype, device)
    return BenchOptions(model=model, dtype=dtype, device=device, threads=args.threads)


def largest_shape(device: str) -> str:
    """The largest shape of which WEIGHT_COPIES copies fit into free VRAM, at two bytes per weight."""
    if device != "cuda":
        return "tiny"
    free = torch.cuda.mem_get_info()[0]
    return next((shape for shape in BY_SIZE if 2 * WEIGHT_COPIES * num_parameters(shape) < free), "tiny")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sections", nargs="*", metavar="section", help=f"{', '.join(SECTIONS)} (default: all)"
    )
    parser.add_argument("--model", choices=SHAPES, help="a shape (default: the largest that fits)")
    parser.add_argument("--device", default="auto", help="cpu or cuda; auto: a GPU if there is one")
    parser.add_argument(
        "--dtype", default="auto", help="float32, bfloat16, float16; auto: the server's choice"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="rounds of the comparisons (default: %(default)s)"
    )
    parser.add_argument("--sample", action="store_true", help="test only a few model families and cases")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="CPU threads (default: all)")
    args = parser.parse_args()
    if unknown := set(args.sections) - set(SECTIONS):
        parser.error(f"{', '.join(sorted(unknown))}: sections are {', '.join(SECTIONS)}")
    return args


if __name__ == "__main__":
    sys.exit(main())
