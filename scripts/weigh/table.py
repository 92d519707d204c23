"""The table of what well-known models take: rows as Markdown, each told by the server's own measure.

Knows the file's form; not how a measure comes to be.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from checks.measure import Measure, measure
from scripts.weigh.forms import by_head, in_eight_bits
from scripts.weigh.shapes import SHAPES, Shape

KEPT = Path(__file__).parent / "table.md"
DTYPE = "bfloat16"
LATENT = "kv_lora_rank"
PREFACE = """\
# What well-known models take, in bytes

Made by `python scripts/weigh.py --write`, from each model's config.json alone, in bfloat16 on a CPU, with
what the server itself asks before a download: `weights` are those of the loaded model, buffers included and
ties once; `int8` and `int4` are what QUANTISE makes of them. `a token` is what the seat that is tried first
keeps of each: of a layer with a window all of them, of latents (DeepSeek) the keys and values that they
unfold to; `slots`, the same with SEAT = "slots", which keeps latents as they are; `a sequence`, what it keeps
however short it is. An encoder's source counts as much as the answer, and is in the figure."""
CELLS = ("model", "parameters", "weights", "int8", "int4", "a token", "slots", "a sequence")


def text() -> Iterator[str]:
    """The whole file, line by line."""
    yield from PREFACE.splitlines()
    yield ""
    yield bars(CELLS)
    yield bars("---" for _ in CELLS)
    yield from map(row, SHAPES)


def row(shape: Shape) -> str:
    first = measured(shape)
    slots = measured(shape, "slots") if LATENT in shape.raw else first
    bytes_of = {kind: first.weights - first.saves[kind] for kind in ("int8", "int4")}
    figures = (first.parameters, first.weights, *bytes_of.values(), first.token, slots.token, first.row)
    return bars((shape.name, *(f"{figure:,}" for figure in figures)))


def measured(shape: Shape, seat: str = "auto") -> Measure:
    raw = by_head(shape.raw) if shape.form == "gguf" else shape.raw
    tensors = in_eight_bits(raw) if shape.form == "fp8" else None
    return measure(raw, 0, lambda parameters: DTYPE, tensors=tensors, seat=seat)


def bars(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
