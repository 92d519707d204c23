"""A draft model must load, and have the tokens of the model that it drafts for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from inference.errors import Unavailable
from inference.open_draft_model import DraftSource, check_same_tokens, load
from settings.groups import EngineSettings, ModelSettings
from tests.tiny_models import tiny

MODEL_SETTINGS = ModelSettings(device="cpu", dtype="float32")
ENGINE_SETTINGS = EngineSettings(
    context=64, max_sequences=2, kv_memory_bytes=1 << 24, max_batch_tokens=64, max_queued_tokens=1000
)


def remove_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def damage_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file({name: tensor * torch.nan for name, tensor in weights.items()}, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [(remove_tokenizer, "has no tokenizer that can be read"), (damage_weights, "the model's logits are NaN")],
)
def test_a_draft_model_that_cannot_be_loaded_is_named_by_its_setting(
    damage: Callable[[Path], None], reason: str, tmp_path: Path
) -> None:
    damage(tiny.llama(tmp_path))
    with pytest.raises(Unavailable, match=f"^DRAFT_MODEL: {reason}"):
        load(DraftSource(tmp_path, MODEL_SETTINGS, ENGINE_SETTINGS))


@dataclass
class Vocabulary:
    ids: dict[str, int]

    def get_vocab(self) -> dict[str, int]:
        return self.ids


IDS = {f"w{id}": id for id in range(200)}


@pytest.mark.parametrize("draft_ids", [IDS, dict(list(IDS.items())[:150]), IDS | {"<end>": 200}])
def test_a_few_other_tokens_are_no_obstacle(draft_ids: dict[str, int]) -> None:
    check_same_tokens(Vocabulary(draft_ids), Vocabulary(IDS))


def test_another_vocabulary_is_refused_with_the_count() -> None:
    shifted = {token: id + 1 for token, id in IDS.items()}
    with pytest.raises(Unavailable, match="DRAFT_MODEL: 200 of its 200 tokens"):
        check_same_tokens(Vocabulary(shifted), Vocabulary(IDS))
