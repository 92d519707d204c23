"""The documented table of models' memory is what the server computes, and that is computed correctly.

Tiny models of the same architectures are loaded with random weights: their bytes, and the KV cache bytes of a
token, equal those computed from the config alone.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoConfig

from checks.memory import measure_model
from checks.memory.kv_cost import RunnerChoice
from inference.model.load.architecture import auto_class_of
from inference.model.load.loader import load
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from scripts.parity.overrides import OVERRIDES
from scripts.parity.tiny_config import shrink
from scripts.parity.tiny_model import make_tokenizer, merge
from scripts.preflight.sizes import table
from scripts.preflight.sizes.shapes import SHAPES, Shape
from settings.groups import ModelSettings

TABLE_LINES = table.TABLE_FILE.read_text().splitlines()
DOC = Path(__file__).parents[3] / "docs/models_and_hardware.md"
MADE_BY = pytest.mark.skipif(
    transformers.__version__ != "5.23.0", reason="the table was made with another transformers"
)
QUICK = ("Qwen/Qwen3-0.6B", "google/gemma-3-1b-it", "state-spaces/mamba-130m-hf", "openai-community/gpt2")
PLAIN = [shape for shape in SHAPES if shape.file_format == "plain"]
LOADED = [  # twice those whose weights are partly in a dtype of their own
    *((shape, "bfloat16") for shape in PLAIN),
    *((shape, "float32") for shape in PLAIN if shape.config["model_type"] in ("llama", "mamba", "t5")),
]


def rows(shapes: list[Shape]) -> list[str]:
    return [table.shape_row(shape) for shape in shapes]


@MADE_BY
def test_a_few_rows_of_the_table_are_reproduced() -> None:
    quick = [shape for shape in SHAPES if shape.name in QUICK]
    assert [row for row in rows(quick) if row not in TABLE_LINES] == []


@MADE_BY
@pytest.mark.slow
def test_the_table_is_reproduced() -> None:
    assert list(table.format_table()) == TABLE_LINES


def test_the_docs_have_the_same_table() -> None:
    doc_lines = DOC.read_text().splitlines()
    assert [row for row in TABLE_LINES if row.startswith("|") and row not in doc_lines] == []


def test_the_table_has_every_kind_of_model() -> None:
    kinds = {shape.config["model_type"] for shape in SHAPES}
    assert len(SHAPES) >= 15 and {"mamba", "t5", "deepseek_v3", "qwen3_next", "mixtral", "bloom"} <= kinds
    assert {shape.file_format for shape in SHAPES} == {"plain", "fp8", "gguf"}


def make_tiny(shape: Shape, folder: Path) -> Path:
    """Saves the shape's architecture with few and small layers and random weights."""
    kind = shape.config["model_type"]
    config = AutoConfig.for_model(**shape.config)
    numbers = merge(shrink(config.to_dict()), OVERRIDES.get(kind, {}))
    config = type(config)(**numbers | ({"decoder_start_token_id": 1} if config.is_encoder_decoder else {}))
    torch.manual_seed(0)
    model = auto_class_of(config).from_config(config)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.2 if weight.dim() > 1 else 0.05)
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "dtype"), LOADED, ids=lambda value: getattr(value, "name", value))
def test_the_computed_size_is_what_is_loaded_and_cached(shape: Shape, dtype: str, tmp_path: Path) -> None:
    folder = make_tiny(shape, tmp_path)
    config_settings: dict[str, Any] = json.loads((folder / "config.json").read_text())
    model = load(folder, ModelSettings(dtype=dtype, device="cpu")).model
    num_bytes = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    size = measure_model(config_settings, 0, lambda parameters: dtype)
    assert size.weights == num_bytes
    selected = select_runner(
        model, RunnerLimits(max_sequences=1, context=64, kv_memory_bytes=10**8), RunnerRules(timed=False)
    )
    assert selected.kv_cost == size.kv_cost
    if table.LATENT_SETTING in shape.config:
        size = measure_model(
            config_settings, 0, lambda parameters: dtype, runner_choice=RunnerChoice("contiguous")
        )
        selected = select_runner(
            model,
            RunnerLimits(max_sequences=1, context=64, kv_memory_bytes=10**8),
            RunnerRules(timed=False, kinds=("contiguous",)),
        )
        assert selected.kv_cost == size.kv_cost
