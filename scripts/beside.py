"""What others say that a model takes, beside what we say and what is true: accelerate and hf-mem.

    python scripts/beside.py          the models that fit into 8 GB, in bfloat16, one sequence of 4096 tokens

The models have the shapes of scripts/weigh and random weights, and are made in memory: their bytes, and what
the seat chosen for them keeps, are the truth. accelerate is asked by what its estimate-memory runs, as no Hub
is. hf-mem asks one host alone: it is installed into an environment of its own, and given the header that the
model's file would have. Its KV cache is another program's, not ours: it is told for what it says.
"""

import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import transformers
from accelerate import init_empty_weights
from accelerate.utils import calculate_maximum_sizes
from transformers import AutoConfig, AutoModel

from checks.measure.kept import slots
from checks.measure.skeleton import nbytes, skeleton
from inference.model import fit
from inference.model.architecture import family_of
from scripts.weigh.shapes import SHAPES, Shape
from scripts.weigh.table import bars, measured

MOST = 4_000_000_000  # parameters
TOKENS = 4096
HF_MEM = "hf-mem==0.5.6"
CELLS = ("model", "weights: true", "ours", "accelerate", "hf-mem", "a sequence: true", "ours", "hf-mem")
ASK = """
import json, sys
from hf_mem.safetensors.kv_cache import compute_safetensors_kv_cache_size
from hf_mem.safetensors.metadata import parse_safetensors_metadata
told = json.load(sys.stdin)
weights = parse_safetensors_metadata({"model": told["header"]}).bytes_count
try:
    kept = compute_safetensors_kv_cache_size(told["config"], "BF16", told["tokens"])
except Exception as error:
    kept = f"{type(error).__name__}: {error}"
print(json.dumps([weights, kept]))
"""


def main() -> int:
    transformers.logging.set_verbosity_error()
    python = environment(Path(tempfile.gettempdir()) / "hearth-hf-mem")
    print(bars(CELLS))
    print(bars("---" for _ in CELLS), flush=True)
    for shape in SHAPES:
        if shape.form == "plain":
            for line in compared(shape, python):
                print(line, flush=True)
    return 0


def environment(folder: Path) -> Path:
    """The Python of an environment that has hf-mem, made where there is none."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", HF_MEM], check=True)
    return python


def compared(shape: Shape, python: Path) -> Iterator[str]:
    """A line, for a model that is not too large to be made."""
    if sum(weight.numel() for weight in skeleton(shape.raw).parameters()) > MOST:
        return
    told = measured(shape)
    theirs, kept = by_hf_mem(shape, python)
    held, truth = made(shape)
    ours = told.row + told.token * TOKENS
    yield bars(
        (
            shape.name,
            f"{held:,}",
            beside(told.weights, held),
            beside(by_accelerate(shape), held),
            beside(theirs, held),
            f"{truth:,}",
            beside(ours, truth),
            beside(kept, truth),
        )
    )


def made(shape: Shape) -> tuple[int, int]:
    """Bytes of the model in memory, and of what a sequence takes in the seat that is chosen for it."""
    config = AutoConfig.for_model(**shape.raw)
    model = family_of(config).from_config(config, dtype=torch.bfloat16).eval().requires_grad_(False)
    held = nbytes((*model.parameters(), *model.buffers()))
    fitted = fit.choose(model, max_rows=1, context=64, kv_bytes=10**9, timed=False)
    token, row = slots(model, fitted.resumes) if fitted.seat == "slots" else (fitted.bytes_per_token, 0)
    return held, row + token * TOKENS


def by_accelerate(shape: Shape) -> int:
    """As its estimate-memory: the largest size is in float32, and half of it that of 16 bits."""
    with init_empty_weights():
        model = AutoModel.from_config(AutoConfig.for_model(**shape.raw), dtype=torch.float32)
    return int(calculate_maximum_sizes(model)[0]) // 2


def by_hf_mem(shape: Shape, python: Path) -> tuple[Any, Any]:
    config = AutoConfig.for_model(**shape.raw)
    seen: dict[int, str] = {}
    header = {
        name: {"dtype": "BF16", "shape": list(weight.shape)}
        for name, weight in skeleton(shape.raw).named_parameters()
        if seen.setdefault(id(weight), name) == name  # a file has what is tied once
    }
    told = {"header": header, "config": config.to_dict(), "tokens": TOKENS}
    answer = subprocess.run(
        [python, "-c", ASK], input=json.dumps(told), capture_output=True, text=True, check=True
    )
    weights, kept = json.loads(answer.stdout)
    return weights, kept


def beside(said: Any, truth: int) -> str:
    """What is said, and by how much it is off."""
    if isinstance(said, str):
        return said
    off = f" ({(said - truth) / truth:+.1%})" if truth and said != truth else ""
    return f"{said:,}{off}"


if __name__ == "__main__":
    sys.exit(main())
