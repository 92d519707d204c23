"""Measurements and tests for a machine with a GPU, in sections. Every figure is written once it is known.

    python -m scripts.gpu --output DIR                         everything, with the shape of Llama 3.1 8B
    python -m scripts.gpu roofline profile --minutes 8         these sections
    python -m scripts.gpu --device cpu --model tiny --sample   a run without a GPU; its figures mean nothing

Needs this checkout, torch, transformers, psutil and pytest; for http, memory and transformers also the
packages of requirements.txt, for vllm also vLLM. No network and no set-up. The weights are random. Sections
that need the same model share it. A section that fails, hangs or loses the GPU ends alone. DIR gets
figures.txt, table.md, log.txt, profile.txt, vllm.txt and correct.txt. Exit code 1 if a section failed or a
result is wrong.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from scripts.gpu.budgets import BUDGETS
from scripts.gpu.report import FigureReport
from scripts.gpu.supervise import start_process, supervise

AUTO = "auto"


def main() -> int:
    args = parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the other process too
    args.output.mkdir(parents=True, exist_ok=True)
    report = FigureReport(args.output)
    end_s = time.monotonic() + 60 * args.minutes
    passed = supervise(args.sections or [*BUDGETS], report, partial(start_process, args, end_s))
    print("\n" + "\n".join(report.table()), flush=True)
    return int(not passed)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("sections", nargs="*", metavar="section", help=f"{', '.join(BUDGETS)} (default: all)")
    add("--model", help="a shape of scripts/bench/models.py (default: the largest that fits)")
    add("--device", default=AUTO, help="cpu or cuda; auto: a GPU if there is one")
    add("--dtype", default=AUTO, help="float32, bfloat16, float16; auto: the server's choice")
    add("--runner", default=AUTO, help="the runner of our engine (default: auto)")
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
    if unknown := set(args.sections) - set(BUDGETS):
        parser.error(f"{', '.join(sorted(unknown))}: sections are {', '.join(BUDGETS)}")
    return args


if __name__ == "__main__":
    sys.exit(main())
