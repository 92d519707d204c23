"""What becomes of the settings on their way to the floors."""

from pathlib import Path
from typing import Any

import pytest

from ahead import looked_up
from checks.machine import Gpu, Machine
from inference.model.scaling import PLAIN, Scaling
from settings.fields import Settings
from settings.layers import Layer, config_layer
from settings.resolve import resolve
from tests import tiny
from wiring import app_settings, plan_of, public_name, scaling_of

CONFIG = config_layer(Path(__file__).parent.parent / "config.py")


def settings(**values: Any) -> Settings:
    return resolve([CONFIG, Layer("here", values)])


@pytest.mark.parametrize(
    ("values", "scaling"),
    [
        ({}, PLAIN),
        ({"ROPE_FACTOR": 2}, Scaling("linear", 2.0)),
        ({"ROPE_SCALING": "dynamic"}, Scaling("dynamic", 1.0)),
        ({"ROPE_SCALING": "yarn", "ROPE_FACTOR": 4}, Scaling("yarn", 4.0)),
    ],
)
def test_a_scaling_is_said_by_its_kind_its_factor_or_both(values: dict[str, Any], scaling: Scaling) -> None:
    assert scaling_of(settings(**values)) == scaling


@pytest.mark.parametrize(
    ("name", "value", "field", "told"),
    [
        ("MAX_CONCURRENT_REQUESTS", 4, "max_concurrent", 4),
        ("MAX_BEST_OF", 3, "max_best_of", 3),
        ("MAX_STOP_SEQUENCES", 6, "max_stop_sequences", 6),
        ("MAX_TOP_N_TOKENS", 7, "max_top_n_tokens", 7),
        ("MAX_CLIENT_BATCH_SIZE", 9, "max_client_batch", 9),
        ("VALIDATION_WORKERS", 3, "validation_workers", 3),
        ("MAX_INPUT_TOKENS", 100, "max_input_tokens", 100),
        ("MAX_INPUT_TOKENS", 0, "max_input_tokens", None),
        ("DISABLE_GRAMMAR_SUPPORT", True, "grammars", False),
        ("ENABLE_PREFILL_LOGPROBS", False, "prefill_logprobs", False),
        ("WATERMARK_GAMMA", 0.25, "watermark_gamma", 0.25),
        ("WATERMARK_DELTA", 3, "watermark_delta", 3.0),
        ("PAYLOAD_LIMIT", "2000000", "max_body_bytes", 2_000_000),
        ("PAYLOAD_LIMIT", "1001", "max_body_bytes", 1001),
    ],
)
def test_a_limit_reaches_the_dialects(name: str, value: object, field: str, told: object) -> None:
    assert getattr(app_settings(settings(**{name: value}), "1"), field) == told


@pytest.mark.parametrize(
    ("asked", "gpus", "places"),
    [("", 1, ()), ("a", 1, ()), ("1", 1, ("cuda:0", "cpu")), ("1,a", 2, ("cuda:0", "cuda:1")), ("1", 0, ())],
)
def test_layers_reach_the_plan(tmp_path: Path, asked: str, gpus: int, places: tuple[str, ...]) -> None:
    machine = Machine(10**12, 10**12, (Gpu("a", 10**11, 10**11),) * gpus, frozenset({"cpu", "cuda"}), "")
    name = str(tiny.llama(tmp_path / "two"))
    wishes = settings(MODEL_NAME=name, LAYERS=asked)
    assert plan_of(wishes, looked_up(wishes, tmp_path), machine).places == places


def test_a_folders_path_stays_here() -> None:
    assert (public_name("/srv/models/mine"), public_name("acme/tiny")) == ("mine", "acme/tiny")
