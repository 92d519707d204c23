"""Contrastive search with a loaded adapter finds the tokens of the search over peft's own model."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel

from inference.contrastive_search.search import search
from tests.lora.adapted_engine import AdaptedEngine, prompts
from tests.lora.peft_adapters import NEW, save_adapter
from tests.tiny_models.families import needs_fused, tiny

PROMPT = prompts()[1]
CASES = [
    pytest.param("fused", "qwen2", {}, marks=needs_fused, id="native"),
    pytest.param(
        "fused", "qwen2", {"use_dora": True, "bias": "lora_only"}, marks=needs_fused, id="native DoRA, biases"
    ),
    pytest.param("fused", "phi3", {"use_dora": True}, marks=needs_fused, id="native merged projections"),
    pytest.param("paged", "llama", {"target_modules": ["q_proj"], "modules_to_save": ["norm"]}, id="paged"),
    pytest.param("contiguous", "t5", {"target_modules": ["q", "k", "v", "wo"]}, id="encoder and decoder"),
]


def tokens_of(model: Any, **options: Any) -> list[int]:
    is_encoder_decoder = model.config.is_encoder_decoder
    ids, encoder_ids = ([0], PROMPT) if is_encoder_decoder else (PROMPT, ())
    generated = search(
        model, ids, encoder_ids, k=4, alpha=0.6, process_logits=lambda logits: logits.float(), **options
    )
    return list(islice(generated, NEW))


@pytest.mark.parametrize(("kind", "family", "config"), CASES)
def test_a_search_with_an_adapter_is_that_of_peft(
    tmp_path: Path, kind: str, family: str, config: dict[str, Any]
) -> None:
    folder = save_adapter(tmp_path, family, 1, **config)
    served = AdaptedEngine(tiny(family), (kind,))
    base = tokens_of(served.model)
    served.load(folder, 1)
    if kind == "fused":
        assert served.runner.adapters[1].native is not None
    with torch.inference_mode():
        adapted = PeftModel.from_pretrained(tiny(family), folder).get_base_model()
        assert tokens_of(served.model, adapter_number=1) == tokens_of(adapted)
        assert tokens_of(served.model) == base != tokens_of(adapted)
