"""The memory of well-known models as a Markdown table, computed by the server's own code."""

from collections.abc import Iterator
from pathlib import Path

from checks.memory import ModelSize, measure_model
from checks.memory.kv_cost import RunnerChoice
from scripts.markdown import markdown_header, markdown_row
from scripts.preflight.sizes.file_formats import config_from_gguf_header, fp8_tensors
from scripts.preflight.sizes.shapes import SHAPES, Shape

TABLE_FILE = Path(__file__).parent / "table.md"
DTYPE = "bfloat16"
LATENT_SETTING = "kv_lora_rank"
PREFACE = """\
# Memory of well-known models, in bytes

Made by `python -m scripts.preflight.sizes --write` from each model's config.json, in bfloat16 on a CPU, with
the computation that the server does before a download.

- `weights`: bytes of the loaded model, with buffers; tied weights count once.
- `int8`, `int4`: the same with QUANTIZE.
- `a token`: KV cache bytes of a token in the runner that is tried first, while it is within the sliding
  window. In this runner, latents (DeepSeek) are expanded to keys and values.
- `in full attention`: the part that a token takes as long as its sequence runs.
- `contiguous`: the same with RUNNER = "contiguous", which caches the latents.
- `a sequence`: bytes that a sequence needs regardless of its length.

In an encoder-decoder model, `a token` is the sum for a source token (cross-attention) and an answer token
(self-attention)."""
COLUMNS = (
    "model",
    "parameters",
    "weights",
    "int8",
    "int4",
    "a token",
    "in full attention",
    "contiguous",
    "a sequence",
)


def format_table() -> Iterator[str]:
    """The lines of TABLE_FILE."""
    yield from PREFACE.splitlines()
    yield ""
    yield from markdown_header(COLUMNS)
    yield from map(shape_row, SHAPES)


def shape_row(shape: Shape) -> str:
    size = measure_shape(shape)
    contiguous = measure_shape(shape, "contiguous") if LATENT_SETTING in shape.config else size
    bytes_of = {kind: size.weights - size.quantization_savings[kind] for kind in ("int8", "int4")}
    figures = (
        size.num_parameters,
        size.weights,
        *bytes_of.values(),
        size.kv_cost.per_recent_token,
        size.kv_cost.per_token,
        contiguous.kv_cost.per_recent_token,
        size.kv_cost.per_row,
    )
    return markdown_row((shape.name, *(f"{figure:,}" for figure in figures)))


def measure_shape(shape: Shape, runner: str = "auto") -> ModelSize:
    config = config_from_gguf_header(shape.config) if shape.file_format == "gguf" else shape.config
    tensors = fp8_tensors(config) if shape.file_format == "fp8" else None
    return measure_model(
        config, 0, lambda parameters: DTYPE, tensors=tensors, runner_choice=RunnerChoice(runner)
    )
