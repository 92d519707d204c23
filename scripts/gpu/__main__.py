"""Measurements and tests for a machine with a GPU, in sections. Every figure is written once it is known.

    python -m scripts.gpu --output DIR                         everything, with the shape of Llama 3.1 8B
    python -m scripts.gpu roofline profile --minutes 8         these sections
    python -m scripts.gpu --device cpu --model tiny --sample   a run without a GPU; its figures mean nothing

Needs this checkout, torch, transformers, psutil and pytest; for http, memory and transformers also the
packages of requirements.txt, for vllm also vLLM. No network and no set-up. The weights are random. Sections
that need the same model share it. DIR gets figures.txt, table.md, log.txt, profile.txt, vllm.txt and
correct.txt. Exit code 1 if a section failed or a result is wrong.
"""

import argparse
import faulthandler
import os
import sys
import tempfile
import time
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
import transformers

from inference.model.load.device_dtype import resolve_device
from inference.model.runner_selection.requirements import RUNNERS
from scripts.bench import machine
from scripts.bench.engine_under_test import EngineFailed
from scripts.bench.models import SHAPES, num_parameters
from scripts.bench.options import AUTO, BenchOptions, dtype_for
from scripts.gpu.engine import EnginePool, EngineSize
from scripts.gpu.log import write_log
from scripts.gpu.report import FigureReport
from scripts.gpu.section import Figure, SectionOptions, SectionRun, WrongResult
from scripts.gpu.sections import SECTIONS

BY_SIZE = ("8b", "0.5b", "77m")
WEIGHT_COPIES = 3  # that must fit into memory: two engines, and as much again for caches and activations
GRACE_S = 60  # after the end of the time, before a run that hangs is ended


def main() -> int:
    args = parse_args()
    transformers.logging.set_verbosity_error()
    args.output.mkdir(parents=True, exist_ok=True)
    write_log(args.output / "log.txt")
    options = SectionOptions(make_options(args), args.rounds, args.sample, args.output, args.vllm_path)
    report = FigureReport(args.output, options.bench.model)
    report.write("\n".join([*machine.describe(), f"{options.bench.model}, {options.bench.dtype}"]))
    engines = EnginePool(options.bench, EngineSize(args.max_sequences, args.max_batch_tokens))
    end_s = time.monotonic() + 60 * args.minutes
    faulthandler.dump_traceback_later(60 * args.minutes + GRACE_S, exit=True)
    passed = [run_section(name, options, engines, report, end_s) for name in args.sections or SECTIONS]
    faulthandler.cancel_dump_traceback_later()
    print("\n" + "\n".join(report.table()), flush=True)
    return int(not all(passed))


def run_section(
    name: str, options: SectionOptions, engines: EnginePool, report: FigureReport, end_s: float
) -> bool:
    """Run a section if half of its budget is left; returns whether it did not fail."""
    section, start_s = SECTIONS[name], time.monotonic()
    if end_s - start_s < 60 * section.minutes / 2:
        report.add(name, Figure("not run", f"{(end_s - start_s) / 60:.1f} of {section.minutes:g} min left"))
        report.write_table()
        return True
    report.write(f"\n{name}")
    run = SectionRun(options, engines, min(end_s, start_s + 60 * section.minutes), report.numbers)
    try:
        figures: Any = section.measure(run)  # a generator
        with closing(figures):
            for figure in figures:
                report.add(name, figure)
                if not run.remaining_s:
                    report.add(name, Figure("time is over", f"{(time.monotonic() - start_s) / 60:.1f} min"))
                    break
        return True
    except (Exception, EngineFailed) as error:  # the other sections still run
        if not isinstance(error, WrongResult):
            traceback.print_exc(file=sys.stdout)
        report.add(name, Figure("failed", type(error).__name__, remark=str(error).partition("\n")[0][:200]))
        error.__traceback__ = None  # its frames hold the engine
        engines.free()
        return False
    finally:
        report.write(f"{name} took {time.monotonic() - start_s:.1f} s")
        report.write_table()


def make_options(args: argparse.Namespace) -> BenchOptions:
    device = resolve_device(args.device)
    model = args.model or largest_shape(device)
    dtype = dtype_for(model, args.dtype, device)
    return BenchOptions(model=model, dtype=dtype, device=device, threads=args.threads, runner=args.runner)


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
    add = parser.add_argument
    add("sections", nargs="*", metavar="section", help=f"{', '.join(SECTIONS)} (default: all)")
    add("--model", choices=SHAPES, help="a shape (default: the largest that fits)")
    add("--device", default="auto", help="cpu or cuda; auto: a GPU if there is one")
    add("--dtype", default="auto", help="float32, bfloat16, float16; auto: the server's choice")
    add("--runner", default=AUTO, choices=(AUTO, *RUNNERS), help="the runner of our engine (default: auto)")
    add(
        "--output",
        type=Path,
        default=Path(tempfile.gettempdir(), "hearth-gpu"),
        help="a folder (default: %(default)s)",
    )
    add("--minutes", type=float, default=60, help="of the whole run (default: %(default)s)")
    add("--max-sequences", type=int, default=256, help="rows of a step (default: %(default)s)")
    add("--max-batch-tokens", type=int, default=2048, help="tokens of a step (default: %(default)s)")
    add("--rounds", type=int, default=3, help="rounds of the comparisons (default: %(default)s)")
    add("--vllm-path", type=Path, help="the folder that contains vLLM (default: this Python has it)")
    add("--sample", action="store_true", help="small counts: only to see that every section runs")
    add("--threads", type=int, default=os.cpu_count(), help="CPU threads (default: all)")
    args = parser.parse_args()
    if unknown := set(args.sections) - set(SECTIONS):
        parser.error(f"{', '.join(sorted(unknown))}: sections are {', '.join(SECTIONS)}")
    return args


if __name__ == "__main__":
    sys.exit(main())
