"""MODELS and MODEL_LOCK: the entries, their keys, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from settings.entry_values import BadEntry
from settings.local_model import LocalModel
from settings.model_list import parse_models
from settings.remote_model import RemoteModel
from settings.schema import BadSetting
from tests.settings.parsed_settings import parsed_settings

ENTRY = {"base_model": "a/b", "inference_server": "vllm_chat:h:8000"}


@pytest.mark.parametrize(
    "value",
    [
        [ENTRY],
        ENTRY,
        '[{"base_model": "a/b", "inference_server": "vllm_chat:h:8000"}]',
        "{'base_model': 'a/b', 'inference_server': 'vllm_chat:h:8000'}",
    ],
)
def test_a_list_may_be_python_json_or_a_literal(value: Any) -> None:
    (model,) = parse_models(value).remote
    assert (model.name, model.server.url) == ("a/b", "http://h:8000/v1")


def test_a_list_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "models.json").write_text('[{"base_model": "a/b", "inference_server": "h:8000"}]')
    assert len(parse_models(f"@{tmp_path}/models.json").remote) == 1


def test_the_keys_of_an_entry_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOX_KEY", "secret")
    keys = {"display_name": "box", "key": "$BOX_KEY", "max_seq_len": 4096, "drop": ["top_k"]}
    (model,) = parse_models([ENTRY | keys | {"timeouts": {"first": 9}, "load_8bit": True}]).remote
    assert (model.name, model.upstream_name, model.context) == ("box", "a/b", 4096)
    assert model.server.headers == {"Authorization": "Bearer secret"} and "secret" not in repr(model)
    assert (model.timeouts.first, model.timeouts.connect, model.drop) == (9.0, 5.0, {"top_k"})


def test_the_key_has_the_name_that_h2ogpt_gives_it() -> None:
    (model,) = parse_models([ENTRY | {"h2ogpt_key": "secret"}]).remote
    assert model.server.headers == {"Authorization": "Bearer secret"}


def test_settings_count_where_an_entry_sets_no_limit() -> None:
    entries = [ENTRY, ENTRY | {"timeouts": {"connect": 5, "probe": 7}}, {"base_model": "x"}]
    values = {"REQUEST_TIMEOUT_FAST": 9, "PROBE_TIMEOUT": 8, "MAX_ANSWER_TOKENS": 70}
    models = parsed_settings(MODELS=entries, **values).models.remote
    assert [(each.timeouts.connect, each.timeouts.probe) for each in models] == [(9.0, 8.0), (5.0, 7.0)]
    assert {each.max_answer_tokens for each in models} == {70}


def test_the_setting_of_the_context_is_the_one_models() -> None:
    (model,) = parsed_settings(INFERENCE_SERVER="vllm_chat:h:8000", CONTEXT=512).models.remote
    assert model.context == 512


def test_equal_names_are_numbered() -> None:
    models = parse_models([ENTRY, ENTRY, {"base_model": "x"}])
    assert [entry.name for entry in models.entries] == ["a/b", "a/b_1", "x"]
    assert models.local == (LocalModel("x", "x"),)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nonsense(", "must be JSON"),
        ("__import__('os').getcwd()", "must be JSON"),
        ("@/no/such/file", "No such file"),
        (5, "must be a list"),
        (["a"], "entry 1: must be an object"),
        ([ENTRY | {"fallbacks": ["a"] * 6}], "may each name 5 models"),
        ([{"base_modle": "a"}], "there is no key 'base_modle'"),
        ([{"base_model": "a", "tokenizer_base_model": "b"}], "tokenizer_base_model is for models on other"),
        ([ENTRY | {"fallbacks": "b"}], "must be lists of names"),
        ([ENTRY | {"key": "$NO_SUCH_VARIABLE"}], "the environment has no NO_SUCH_VARIABLE"),
        ([ENTRY | {"inference_server": "replicate:x"}], "LiteLLM"),
        ([ENTRY | {"max_seq_len": "many"}], "whole numbers"),
    ],
)
def test_a_wrong_list_is_refused_with_its_reason(value: Any, message: str) -> None:
    with pytest.raises(BadEntry, match=message):
        parse_models(value)


def test_models_replace_the_name_of_the_model() -> None:
    assert parsed_settings(MODELS=[ENTRY]).model_name == ""
    assert parsed_settings(MODEL_LOCK=[ENTRY, {"base_model": "models/demo"}]).model_name == "models/demo"
    settings = parsed_settings(INFERENCE_SERVER="h:8000", MODEL_NAME="a/b")
    (model,) = settings.models.remote
    assert isinstance(model, RemoteModel) and model.name == "a/b" and not settings.model_name


def test_messages_name_the_setting_and_no_key() -> None:
    with pytest.raises(BadSetting, match="MODELS entry 1: there is no key 'x'"):
        parsed_settings(MODELS=[ENTRY | {"x": 1, "key": "secret"}])
    with pytest.raises(BadSetting, match="INFERENCE_SERVER: entry 1: ") as refusal:
        parsed_settings(INFERENCE_SERVER="http://h:80:secret")
    assert "secret" not in str(refusal.value)
    with pytest.raises(BadSetting, match="both set"):
        parsed_settings(INFERENCE_SERVER="h:1", MODELS=[ENTRY])


@pytest.mark.parametrize(
    ("name", "routes"),
    [
        ("gpt-4o", "chat"),
        ("gpt-3.5-turbo-0613", "chat"),
        ("gpt-3.5-turbo-instruct", "completions"),
        ("davinci-002", "completions"),
    ],
)
def test_openai_means_chats_for_models_that_have_chats_alone(name: str, routes: str) -> None:
    (model,) = parse_models([{"base_model": name, "inference_server": "openai"}]).remote
    assert model.server.routes == routes
