"""Stretched positions: what becomes of a config, and of what the model computes."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from inference.errors import BadRequest
from inference.model import load as loading
from inference.model.rope import settle
from inference.model.scaling import PLAIN, Scaling
from tests import tiny


def config(**changes: Any) -> transformers.LlamaConfig:
    return transformers.LlamaConfig(**tiny.LLAMA | changes)


def stretched(scaling: Scaling, **changes: Any) -> Any:
    made = config(**changes)
    scaling.stretch(made)
    return made


def frequencies(model: Any) -> torch.Tensor:
    return model.model.rotary_emb.inv_freq


@pytest.mark.parametrize("kind", ["linear", "dynamic"])
def test_a_config_gets_the_scaling_and_keeps_its_base(kind: str) -> None:
    made = stretched(Scaling(kind, 2.0), rope_parameters={"rope_type": "default", "rope_theta": 5e5})
    assert made.rope_parameters == {"rope_theta": 5e5, "rope_type": kind, "factor": 2.0}


def test_yarn_is_told_the_length_of_the_training() -> None:
    assert stretched(Scaling("yarn", 4.0)).rope_parameters["original_max_position_embeddings"] == 512


def test_a_scaling_takes_the_place_of_the_models_own() -> None:
    own = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 64}
    made = stretched(Scaling("linear", 2.0), rope_parameters=own)
    assert (made.rope_parameters["factor"], made.max_position_embeddings) == (2.0, 64)


def test_layers_that_look_only_at_what_is_near_stay_as_they_are() -> None:
    made = transformers.Gemma3TextConfig(num_hidden_layers=6)
    near = dict(made.rope_parameters["sliding_attention"])
    Scaling("linear", 4.0).stretch(made)
    assert made.rope_parameters["sliding_attention"] == near
    assert made.rope_parameters["full_attention"]["factor"] == 4.0


def test_without_a_kind_nothing_changes() -> None:
    assert stretched(PLAIN).to_dict() == config().to_dict()
    assert (PLAIN.length(512), Scaling("linear", 2.5).length(512)) == (512, 1280)


def test_a_model_without_rotary_positions_is_refused() -> None:
    with pytest.raises(BadRequest, match="ROPE_SCALING needs a model with rotary positions, got 'linear'"):
        Scaling("linear", 2.0).stretch(transformers.GPT2Config())


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn"])
def test_a_loaded_model_turns_slower(kind: str, tmp_path: Path) -> None:
    folder = tiny.llama(tmp_path)
    options: dict[str, Any] = {"dtype": "float32", "device": "cpu", "trust_remote_code": False}
    plain = loading.load(folder, **options)
    slow = loading.load(folder, scaling=Scaling(kind, 4.0), **options)
    settle(slow.model, slow.context)
    assert (plain.context, slow.context) == (512, 2048)
    assert frequencies(slow.model)[-1] < frequencies(plain.model)[-1]
