"""All that only a GPU can show, in one command: right answers, the roofline, steps begun early, a peer, a
step's profile, and whether its memory was predicted.

    python scripts/gpu.py                                      everything, with the shape of Llama 3.1 8B
    python scripts/gpu.py roofline profile                     these parts
    python scripts/gpu.py --device cpu --model tiny --sample   a way through it all without a GPU

Needs this checkout, torch, transformers, psutil and pytest; no network and no set-up. The weights are random.
Parts follow one another, each with the memory to itself. One table at the end; exit code 1 where a part
failed or an answer is wrong.
"""

import argparse
import gc
import os
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import transformers

from scripts.bench import machine
from scripts.bench.models import SHAPES, parameters
from scripts.bench.table import table
from scripts.bench.terms import Terms, device_for, dtype_for
from scripts.gpu import correct, fits, overlap, peer, profile, roofline
from scripts.gpu.part import Asked, Line, Wrong

PARTS = {
    "correct": correct.lines,
    "roofline": roofline.lines,
    "overlap": overlap.lines,
    "peer": peer.lines,
    "profile": profile.lines,
    "memory": fits.lines,
}
BY_SIZE = ("8b", "0.5b", "77m")
COPIES = 3  # of the weights that must fit: two contenders', and as much for all else


def main() -> int:
    options = parse()
    transformers.logging.set_verbosity_error()
    print("\n".join(machine.lines()), flush=True)
    asked = Asked(terms(options), options.rounds, options.sample)
    found: list[Line] = [("part", "figure", "value", "")]
    failed = False
    for name in options.parts or PARTS:
        print(f"\n{name}", flush=True)
        try:
            found += [(name, *line) for line in PARTS[name](asked)]
        except Exception as error:  # a part takes nothing from the others
            if not isinstance(error, Wrong):
                traceback.print_exc()
            found.append((name, "failed", type(error).__name__, str(error).partition("\n")[0][:80]))
            failed = True
        gc.collect()
        if asked.terms.device == "cuda":
            torch.cuda.empty_cache()
    print("\n" + "\n".join(table(found)))
    return int(failed)


def terms(options: argparse.Namespace) -> Terms:
    device = device_for(options.device)
    model = options.model or largest(device)
    dtype = dtype_for(model, options.dtype, device)
    return Terms(model=model, dtype=dtype, device=device, threads=options.threads)


def largest(device: str) -> str:
    """The largest shape of which there is room for COPIES, at two bytes a weight."""
    if device != "cuda":
        return "tiny"
    free = torch.cuda.mem_get_info()[0]
    return next((shape for shape in BY_SIZE if 2 * COPIES * parameters(shape) < free), "tiny")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; none: all")
    parser.add_argument("--model", choices=SHAPES, help="a shape (default: the largest that fits)")
    parser.add_argument("--device", default="auto", help="cpu or cuda; auto: a GPU where there is one")
    parser.add_argument(
        "--dtype", default="auto", help="float32, bfloat16, float16; auto: the server's choice"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of the comparison with the peer")
    parser.add_argument("--sample", action="store_true", help="of the correctness suite only a few families")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the processor (default: all)")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: parts are {', '.join(PARTS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
