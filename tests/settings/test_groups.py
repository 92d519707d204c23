"""The groups of settings: every package gets a setting under its own name."""

from dataclasses import MISSING, fields

import pytest

from settings.device_defaults import fill_defaults
from settings.groups import (
    BackendSettings,
    EngineSettings,
    HttpSettings,
    ModelSettings,
    ServerSettings,
    TuningSettings,
    backend_settings,
    group,
    server_settings,
    tuning_settings,
)
from settings.schema import Settings
from tests.settings.parsed_settings import parsed_settings

SETTINGS = {field.name for field in fields(Settings)}
UNITS = ("_bytes", "_s")
# fields that are no setting: the server's version, and the device of each layer from the plan
DERIVED = {"version", "layer_devices", "has_link"}
GROUPS = (ModelSettings, EngineSettings, BackendSettings, ServerSettings, HttpSettings, TuningSettings)
AnyGroup = ModelSettings | EngineSettings | BackendSettings | ServerSettings | HttpSettings | TuningSettings


@pytest.mark.parametrize("kind", GROUPS)
def test_a_field_is_its_setting_in_lower_case_except_for_a_unit(
    kind: type[AnyGroup],
) -> None:
    names = {field.name for field in fields(kind)} - DERIVED
    assert names
    for name in names - SETTINGS:
        stem = next((name.removesuffix(unit) for unit in UNITS if name.endswith(unit)), name)
        assert any(setting == stem or setting.startswith(f"{stem}_") for setting in SETTINGS), name


ON_CPU = fill_defaults(parsed_settings(), "cpu")
FROM_CONFIG = (
    group(ModelSettings, ON_CPU, device="cpu", dtype="float32", layer_devices=(), num_shard=1),
    group(EngineSettings, ON_CPU, context=1, kv_memory_bytes=1, max_batch_total_tokens=None),
    backend_settings(ON_CPU),
    server_settings(ON_CPU, version=""),
    group(HttpSettings, ON_CPU),
    tuning_settings(ON_CPU),
)


@pytest.mark.parametrize("values", FROM_CONFIG, ids=lambda values: type(values).__name__)
def test_a_default_is_the_value_in_config_py(
    values: AnyGroup,
) -> None:
    defaults = {field.name: field.default for field in fields(values) if field.default is not MISSING}
    assert {name: getattr(values, name) for name in defaults} == defaults


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("MAX_CONCURRENT_REQUESTS", 4, "max_concurrent_requests", 4),
        ("MAX_BEST_OF", 3, "max_best_of", 3),
        ("MAX_STOP_SEQUENCES", 6, "max_stop_sequences", 6),
        ("MAX_TOP_N_TOKENS", 7, "max_top_n_tokens", 7),
        ("MAX_CLIENT_BATCH_SIZE", 9, "max_client_batch_size", 9),
        ("VALIDATION_WORKERS", 3, "validation_workers", 3),
        ("MAX_INPUT_TOKENS", 100, "max_input_tokens", 100),
        ("MAX_INPUT_TOKENS", 0, "max_input_tokens", None),
        ("DISABLE_GRAMMAR_SUPPORT", True, "disable_grammar_support", True),
        ("ENABLE_PREFILL_LOGPROBS", False, "enable_prefill_logprobs", False),
        ("WATERMARK_GAMMA", 0.25, "watermark_gamma", 0.25),
        ("WATERMARK_DELTA", 3, "watermark_delta", 3.0),
        ("PAYLOAD_LIMIT", "2000000", "max_body_bytes", 2_000_000),
        ("PAYLOAD_LIMIT", "1001", "max_body_bytes", 1001),
    ],
)
def test_a_limit_reaches_the_dialects(name: str, value: object, field: str, expected: object) -> None:
    assert getattr(server_settings(parsed_settings(**{name: value}), "1"), field) == expected
