"""RoPE: the config that a scaling produces, and frequencies that transformers would change with each call."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import PreTrainedModel

from inference.errors import BadRequest
from inference.model.load import loader as loading
from inference.model.load.rope import NO_SCALING, RopeScaling, freeze_frequencies, rope_scaling
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from settings.groups import ModelSettings
from tests.tiny_models import families, tiny
from tests.walks.batch_walk import RunnerWalk, plain

ORIGINAL = 24
LONG = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.0, 1.0, 1.0],
    "long_factor": [1.5, 2.0, 3.0, 4.0],
    "original_max_position_embeddings": ORIGINAL,
}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}


def config(**changes: Any) -> transformers.LlamaConfig:
    return transformers.LlamaConfig(**tiny.LLAMA | changes)


def scaled_config(scaling: RopeScaling, **changes: Any) -> Any:
    new_config = config(**changes)
    scaling.apply(new_config)
    return new_config


def frequencies(model: Any) -> torch.Tensor:
    return model.model.rotary_emb.inv_freq


@pytest.mark.parametrize("kind", ["linear", "dynamic"])
def test_a_config_gets_the_scaling_and_keeps_its_base(kind: str) -> None:
    new_config = scaled_config(
        RopeScaling(kind, 2.0), rope_parameters={"rope_type": "default", "rope_theta": 5e5}
    )
    assert new_config.rope_parameters == {"rope_theta": 5e5, "rope_type": kind, "factor": 2.0}


def test_yarn_gets_the_training_length() -> None:
    assert scaled_config(RopeScaling("yarn", 4.0)).rope_parameters["original_max_position_embeddings"] == 512


def test_a_scaling_replaces_the_models_own() -> None:
    own = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 64}
    new_config = scaled_config(RopeScaling("linear", 2.0), rope_parameters=own)
    assert (new_config.rope_parameters["factor"], new_config.max_position_embeddings) == (2.0, 64)


def test_sliding_window_layers_are_not_scaled() -> None:
    new_config = transformers.Gemma3TextConfig(num_hidden_layers=6)
    near = dict(new_config.rope_parameters["sliding_attention"])
    RopeScaling("linear", 4.0).apply(new_config)
    assert new_config.rope_parameters["sliding_attention"] == near
    assert new_config.rope_parameters["full_attention"]["factor"] == 4.0


def test_without_a_kind_nothing_changes() -> None:
    assert scaled_config(NO_SCALING).to_dict() == config().to_dict()
    assert (NO_SCALING.scale_length(512), RopeScaling("linear", 2.5).scale_length(512)) == (512, 1280)


def test_a_model_without_rotary_positions_is_refused() -> None:
    with pytest.raises(BadRequest, match="ROPE_SCALING needs a model with rotary positions, got 'linear'"):
        RopeScaling("linear", 2.0).apply(transformers.GPT2Config())


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn"])
def test_a_loaded_model_has_lower_frequencies(kind: str, tmp_path: Path) -> None:
    folder = tiny.llama(tmp_path)
    settings = ModelSettings(dtype="float32", device="cpu")
    plain = loading.load(folder, settings)
    slow = loading.load(folder, replace(settings, rope_scaling=kind, rope_factor=4.0))
    freeze_frequencies(slow.model, slow.context)
    assert (plain.context, slow.context) == (512, 2048)
    assert frequencies(slow.model)[-1] < frequencies(plain.model)[-1]


@pytest.mark.parametrize(
    ("kind", "factor", "scaling"),
    [
        ("none", 1.0, NO_SCALING),
        ("none", 2.0, RopeScaling("linear", 2.0)),
        ("dynamic", 1.0, RopeScaling("dynamic", 1.0)),
        ("yarn", 4.0, RopeScaling("yarn", 4.0)),
    ],
)
def test_a_scaling_is_set_by_its_kind_its_factor_or_both(
    kind: str, factor: float, scaling: RopeScaling
) -> None:
    assert rope_scaling(kind, factor) == scaling


def longrope() -> PreTrainedModel:
    return families.tiny("llama", rope_parameters=LONG | {"rope_theta": 10_000.0})


def dynamic() -> PreTrainedModel:
    return families.tiny(
        "llama", rope_parameters=DYNAMIC | {"rope_theta": 10_000.0}, max_position_embeddings=ORIGINAL
    )


@pytest.mark.parametrize("make", [longrope, dynamic])
def test_a_short_row_does_not_change_when_its_neighbour_grows_long(make) -> None:  # noqa: ANN001
    model = make()
    selected = select_runner(
        model,
        RunnerLimits(max_sequences=4, context=64, kv_memory_bytes=1 << 24),
        RunnerRules(kinds=("contiguous",)),
    )
    walk = RunnerWalk(model, selected.runner)
    walk.join(list(range(5, 35)))
    walk.join([5, 9, 13])
    walk.step([30, 3])
    walk.step([5, 1])
    assert walk.error < 1e-4


def test_frequencies_stay_unchanged_within_the_original_length() -> None:
    model, tokens = longrope(), list(range(5, 5 + ORIGINAL))
    before = plain(model, tokens, [])
    assert freeze_frequencies(model, ORIGINAL) == ["longrope"]
    assert torch.equal(plain(model, tokens, []), before)


def test_beyond_the_original_length_every_row_uses_the_long_frequencies() -> None:
    model, tokens = longrope(), list(range(5, 45))
    before = plain(model, tokens, [])
    freeze_frequencies(model, 64)
    assert torch.equal(plain(model, tokens, []), before)
    assert freeze_frequencies(model, 64) == []
