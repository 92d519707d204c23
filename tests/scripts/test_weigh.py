"""What models take: the table that is kept is what the server says, and what it says is true.

The same architectures are made tiny, with random weights, and loaded: their bytes, and what a seat keeps of a
token, are those that were told from the config alone.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoConfig

from checks.measure import measure
from inference.model import fit
from inference.model.architecture import family_of
from inference.model.load import load
from scripts.prove.oddities import ODDITIES
from scripts.prove.shrink import shrunk
from scripts.prove.tiny import merged, tokenizer
from scripts.weigh import table
from scripts.weigh.shapes import SHAPES, Shape

KEPT = table.KEPT.read_text().splitlines()
README = Path(__file__).parents[2] / "README.md"
MADE_BY = pytest.mark.skipif(
    transformers.__version__ != "5.23.0", reason="the table was made with another transformers"
)
QUICK = ("Qwen/Qwen3-0.6B", "google/gemma-3-1b-it", "state-spaces/mamba-130m-hf", "openai-community/gpt2")
PLAIN = [shape for shape in SHAPES if shape.form == "plain"]


def rows(shapes: list[Shape]) -> list[str]:
    return [table.row(shape) for shape in shapes]


@MADE_BY
def test_the_table_is_what_the_server_says_of_a_few() -> None:
    quick = [shape for shape in SHAPES if shape.name in QUICK]
    assert [row for row in rows(quick) if row not in KEPT] == []


@MADE_BY
@pytest.mark.slow
def test_the_table_is_what_the_server_says() -> None:
    assert list(table.text()) == KEPT


def test_the_readme_has_the_same_table() -> None:
    readme = README.read_text().splitlines()
    assert [row for row in KEPT if row.startswith("|") and row not in readme] == []


def test_every_kind_of_model_is_in_it() -> None:
    kinds = {shape.raw["model_type"] for shape in SHAPES}
    assert len(SHAPES) >= 15 and {"mamba", "t5", "deepseek_v3", "qwen3_next", "mixtral", "bloom"} <= kinds
    assert {shape.form for shape in SHAPES} == {"plain", "fp8", "gguf"}


def made_tiny(shape: Shape, folder: Path) -> Path:
    """The shape's architecture, of few and small layers, with random weights."""
    kind = shape.raw["model_type"]
    config = AutoConfig.for_model(**shape.raw)
    numbers = merged(shrunk(config.to_dict()), ODDITIES.get(kind, {}))
    config = type(config)(**numbers | ({"decoder_start_token_id": 1} if config.is_encoder_decoder else {}))
    torch.manual_seed(0)
    model = family_of(config).from_config(config)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.2 if weight.dim() > 1 else 0.05)
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", PLAIN, ids=lambda shape: shape.name)
def test_what_is_told_is_what_is_loaded_and_kept(shape: Shape, dtype: str, tmp_path: Path) -> None:
    folder = made_tiny(shape, tmp_path)
    raw: dict[str, Any] = json.loads((folder / "config.json").read_text())
    model = load(folder, dtype=dtype, device="cpu", trust_remote_code=False).model
    held = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    told = measure(raw, 0, lambda parameters: dtype)
    assert told.weights == held
    fitted = fit.choose(model, max_rows=1, context=64, kv_bytes=10**8, timed=False)
    assert fitted.bytes_per_token == told.token
    if table.LATENT in shape.raw:
        told = measure(raw, 0, lambda parameters: dtype, seat="slots")
        fitted = fit.choose(model, max_rows=1, context=64, kv_bytes=10**8, timed=False, kinds=("slots",))
        assert fitted.bytes_per_token == told.token
