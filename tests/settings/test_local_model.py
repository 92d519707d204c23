"""Entries of MODELS for models of this machine, and the settings that each has for itself."""

from typing import Any

import pytest

from settings.entry_values import BadEntry
from settings.model_list import parse_models
from settings.schema import BadSetting
from settings.sources import settings_of_model
from tests.settings.parsed_settings import parsed_settings

SMALL, LARGE = {"base_model": "acme/small"}, {"base_model": "acme/large"}


def test_a_model_alone_is_loaded_by_the_server_itself() -> None:
    models = parse_models([SMALL])
    assert models.own is models.local[0] and not models.on_demand


def test_several_models_or_one_with_keep_alive_are_loaded_on_demand() -> None:
    for value in ([SMALL, LARGE], [SMALL | {"keep_alive": "1m"}]):
        models = parse_models(value)
        assert models.own is None and models.on_demand == models.local


def test_the_keys_of_an_entry_are_read() -> None:
    keys = {"display_name": "s", "aliases": ["tiny"], "pinned": True, "keep_alive": 90}
    (model,) = parse_models([SMALL | keys | {"settings": {"quantize": "int8"}}]).local
    assert (model.name, model.base_model, model.aliases) == ("s", "acme/small", ("tiny",))
    assert (model.is_pinned, model.keep_alive, model.settings) == (True, 90, {"QUANTIZE": "int8"})


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"settings": {"PORT": 1}}, "entry 1: settings: PORT is no setting that a model has for itself"),
        ({"settings": ["QUANTIZE"]}, "must be objects"),
        ({"keep_alive": "long"}, "entry 1: keep_alive must be a duration"),
        ({"aliases": "tiny"}, "must be lists of names"),
        ({"max_concurrent": 3}, "max_concurrent is for models on other servers"),
    ],
)
def test_a_wrong_key_is_refused_with_its_reason(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(BadEntry, match=message):
        parse_models([SMALL | keys])


def test_each_model_has_its_own_settings() -> None:
    settings = parsed_settings(
        MODELS=[SMALL | {"settings": {"QUANTIZE": "int8"}}, LARGE | {"settings": {"CONTEXT": 512}}]
    )
    small, large = (settings_of_model(settings, model) for model in settings.models.on_demand)
    assert (small.model_name, small.quantize, small.context) == ("acme/small", "int8", settings.context)
    assert (large.model_name, large.quantize, large.context) == ("acme/large", settings.quantize, 512)
    assert settings.model_name == ""


def test_a_model_alone_has_its_settings_too() -> None:
    entry = SMALL | {"display_name": "s", "aliases": ["tiny"], "settings": {"CONTEXT": 512}}
    settings = parsed_settings(MODELS=[entry])
    assert (settings.model_name, settings.context) == ("acme/small", 512)
    assert settings.served_names == ("s", "tiny")


@pytest.mark.parametrize(
    ("own_settings", "message"),
    [
        ({"QUANTIZE": "int9"}, "MODELS: acme/small: QUANTIZE int9: must be none, int8"),
        ({"CONTEXT": 100, "MAX_INPUT_TOKENS": 200}, "max_input_tokens"),
    ],
)
def test_wrong_settings_stop_the_start(own_settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        parsed_settings(MODELS=[SMALL | {"settings": own_settings}, LARGE])
