"""Compares three predictions of a model's memory with its real size: ours, accelerate's and hf-mem's.

    python -m scripts.preflight.versus    models up to 4 B parameters in bfloat16, one sequence of 4096 tokens

The models have the shapes of scripts/preflight/sizes and random weights, and are built in memory. The real
size is that of the weights, and of the KV cache of the selected runner. accelerate: the function behind its
`estimate-memory` command, without the Hub. hf-mem: runs in a virtual environment of its own, on the
safetensors header that the model's file would have; its KV cache prediction does not know this server.
"""

import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from accelerate import init_empty_weights
from accelerate.utils import calculate_maximum_sizes
from transformers import AutoConfig, AutoModel

from checks.memory.kv_cost import cost_of_contiguous
from inference.model.kv_cost import KVLimits
from inference.model.load.architecture import auto_class_of
from inference.model.load.meta_model import nbytes, try_build_on_meta
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from scripts.markdown import markdown_header, markdown_row
from scripts.preflight.sizes.shapes import SHAPES, Shape
from scripts.preflight.sizes.table import measure_shape

MAX_PARAMETERS = 4_000_000_000  # parameters
TOKENS = 4096
LIMITS = KVLimits(max_sequences=1, context=TOKENS, max_batch_tokens=512, page_size=16)
HF_MEM = "hf-mem==0.5.6"
COLUMNS = ("model", "weights: true", "ours", "accelerate", "hf-mem", "a sequence: true", "ours", "hf-mem")
HF_MEM_PROGRAM = """
import json, sys
from hf_mem.safetensors.kv_cache import compute_safetensors_kv_cache_size
from hf_mem.safetensors.metadata import parse_safetensors_metadata
request = json.load(sys.stdin)
weights = parse_safetensors_metadata({"model": request["header"]}).bytes_count
try:
    cache = compute_safetensors_kv_cache_size(request["config"], "BF16", request["tokens"])
except Exception as error:
    cache = f"{type(error).__name__}: {error}"
print(json.dumps([weights, cache]))
"""


def main() -> int:
    transformers.logging.set_verbosity_error()
    python = make_environment(Path(tempfile.gettempdir()) / "hearth-hf-mem")
    print(*markdown_header(COLUMNS), sep="\n", flush=True)
    for shape in SHAPES:
        if shape.file_format == "plain":
            for line in compare(shape, python):
                print(line, flush=True)
    return 0


def make_environment(folder: Path) -> Path:
    """The Python of an environment with hf-mem, which is created if it is missing."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", HF_MEM], check=True)
    return python


def compare(shape: Shape, python: Path) -> Iterator[str]:
    """The model's row of the table; nothing for a model of more than MAX_PARAMETERS."""
    if sum(weight.numel() for weight in try_build_on_meta(shape.config).parameters()) > MAX_PARAMETERS:
        return
    size = measure_shape(shape)
    hf_mem_weights, hf_mem_cache = run_hf_mem(shape, python)
    weights, sequence_bytes = measure_built_model(shape)
    our_sequence_bytes = size.kv_cost.sequence_bytes(TOKENS, LIMITS)
    yield markdown_row(
        (
            shape.name,
            f"{weights:,}",
            with_error(size.weights, weights),
            with_error(accelerate_weights(shape), weights),
            with_error(hf_mem_weights, weights),
            f"{sequence_bytes:,}",
            with_error(our_sequence_bytes, sequence_bytes),
            with_error(hf_mem_cache, sequence_bytes),
        )
    )


def measure_built_model(shape: Shape) -> tuple[int, int]:
    """Bytes of the built model, and KV cache bytes of a sequence of TOKENS in its selected runner."""
    config = AutoConfig.for_model(**shape.config)
    model = auto_class_of(config).from_config(config, dtype=torch.bfloat16).eval().requires_grad_(False)
    weights = nbytes((*model.parameters(), *model.buffers()))
    selected = select_runner(
        model, RunnerLimits(max_sequences=1, context=64, kv_memory_bytes=10**9), RunnerRules(timed=False)
    )
    kv_cost = (
        cost_of_contiguous(model, selected.runner.capabilities.chunked_prefill)
        if selected.runner_kind == "contiguous"
        else selected.kv_cost
    )
    return weights, kv_cost.sequence_bytes(TOKENS, LIMITS)


def accelerate_weights(shape: Shape) -> int:
    """Bytes in bfloat16, computed as `accelerate estimate-memory` does: half of the size in float32."""
    with init_empty_weights():
        model = AutoModel.from_config(AutoConfig.for_model(**shape.config), dtype=torch.float32)
    return int(calculate_maximum_sizes(model)[0]) // 2


def run_hf_mem(shape: Shape, python: Path) -> tuple[Any, Any]:
    """Predicted bytes of the weights and of the KV cache; an error text instead of the latter if it fails."""
    config = AutoConfig.for_model(**shape.config)
    name_by_weight: dict[int, str] = {}
    header = {
        name: {"dtype": "BF16", "shape": list(weight.shape)}
        for name, weight in try_build_on_meta(shape.config).named_parameters()
        if name_by_weight.setdefault(id(weight), name) == name  # a file stores tied weights once
    }
    request = {"header": header, "config": config.to_dict(), "tokens": TOKENS}
    result = subprocess.run(
        [python, "-c", HF_MEM_PROGRAM], input=json.dumps(request), capture_output=True, text=True, check=True
    )
    weights, hf_mem_cache = json.loads(result.stdout)
    return weights, hf_mem_cache


def with_error(value: Any, actual: int) -> str:
    """The value and its relative error."""
    if isinstance(value, str):
        return value
    error = f" ({(value - actual) / actual:+.1%})" if actual and value != actual else ""
    return f"{value:,}{error}"


if __name__ == "__main__":
    sys.exit(main())
