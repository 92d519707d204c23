"""How fast is it? Each piece compares contenders in one run, alternating, on the same loads.

    python scripts/bench.py                            every piece, each with its own model
    python scripts/bench.py prefix loads --rounds 5    these
    python scripts/bench.py loads --model 0.5b         with a larger model; its weights are random
    python scripts/bench.py loads --profile            and where our engine's time goes
    python scripts/bench.py peers --peers FOLDER       the engines that scripts/bench/install.sh put there

Models are named shapes with random weights, or folders. Progress goes to stderr, tables to stdout.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import transformers

from inference.model.fit import KINDS
from scripts.bench import machine, table
from scripts.bench.models import SHAPES
from scripts.bench.peers import PEERS
from scripts.bench.piece import Piece
from scripts.bench.pieces import PIECES
from scripts.bench.rounds import measure
from scripts.bench.terms import AUTO, QUANTISE, Terms, device_for, dtype_for

ROOT = Path(__file__).resolve().parent.parent
PEERS_HOME = os.environ.get("PEERS", "peers")


def main() -> None:
    options = parse()
    transformers.logging.set_verbosity_error()
    print("\n".join(machine.lines()))
    measured = []
    for name in options.pieces or PIECES:
        for asked in terms(PIECES[name], options):
            results = measure(PIECES[name], asked, options.rounds)
            print("\n" + "\n".join(table.lines(results)), flush=True)
            measured.append(table.as_json(results))
    if options.json:
        kept = {"machine": [*machine.lines()], "pieces": measured}
        Path(options.json).write_text(json.dumps(kept, indent=1, ensure_ascii=False))


def terms(piece: Piece, options: argparse.Namespace) -> Iterator[Terms]:
    """One for each precision that is asked for."""
    model = options.model or (piece.model if piece.model in SHAPES else os.path.relpath(ROOT / piece.model))
    device = device_for(options.device)
    asked = Terms(
        model=model,
        dtype=dtype_for(model, options.dtype, device),
        device=device,
        threads=options.threads,
        batches=tuple(options.batches),
        drafts=options.drafts,
        seat=options.seat,
        profile=options.profile,
        peers=options.peers,
        against=tuple(options.against),
        only=tuple(options.only),
    )
    yield from (replace(asked, quantise=each) for each in options.quantise or piece.quantise)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pieces", nargs="*", metavar="piece", help=f"of {', '.join(PIECES)}; none: all")
    parser.add_argument("--model", help=f"one of {', '.join(SHAPES)}, or a folder (default: the piece's own)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", default="auto", help="float32, bfloat16 or float16; auto: as served")
    parser.add_argument("--device", default="auto", help="cpu or cuda; auto: a GPU where there is one")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of the processor")
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 16], help="sizes of generate's batches")
    parser.add_argument("--drafts", type=int, default=8, help="tokens guessed ahead, at most")
    parser.add_argument("--seat", default=AUTO, choices=(AUTO, *KINDS), help="how our engine runs the model")
    parser.add_argument(
        "--quantise", nargs="+", choices=QUANTISE, help="our weights, and the peers' (default: the piece's)"
    )
    parser.add_argument("--peers", default=PEERS_HOME, help="where other engines are (default: %(default)s)")
    parser.add_argument("--against", nargs="+", default=[], choices=PEERS, help="of the peers these (all)")
    parser.add_argument("--only", nargs="+", default=[], metavar="LOAD", help="of peers' loads these (all)")
    parser.add_argument("--profile", action="store_true", help="tell where our engine's time goes")
    parser.add_argument("--json", metavar="FILE", help="also write every figure of every round there")
    options = parser.parse_args()
    if unknown := set(options.pieces) - set(PIECES):
        parser.error(f"{', '.join(sorted(unknown))}: pieces are {', '.join(PIECES)}")
    return options


if __name__ == "__main__":
    main()
