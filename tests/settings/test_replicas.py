"""REPLICAS: a number or a range on a Ray cluster, or servers."""

from typing import Any

import pytest

from settings.replicas import ReplicaSpec, parse_replicas
from settings.schema import BadSetting
from tests.settings.parsed_settings import parsed_settings

SERVERS = "http://a:8000,http://b:8000"


@pytest.mark.parametrize(
    ("value", "replicas"),
    [
        ("", ReplicaSpec()),
        ("4", ReplicaSpec(4, 4)),
        (4, ReplicaSpec(4, 4)),
        ("2..8", ReplicaSpec(2, 8)),
        (" 2 .. 8 ", ReplicaSpec(2, 8)),
        ("http://a:8000, dns:b:8000", ReplicaSpec(servers=("http://a:8000", "dns:b:8000"))),
    ],
)
def test_every_form_of_replicas_is_read(value: Any, replicas: ReplicaSpec) -> None:
    assert parse_replicas(value) == replicas and bool(replicas) == bool(value)


@pytest.mark.parametrize("value", ["0", "8..2", "0..3", "2..", "2-8", "four", True, 2.5, "-1"])
def test_what_is_no_number_and_no_server_is_refused(value: Any) -> None:
    with pytest.raises(BadSetting, match=r'REPLICAS must be a number such as "4", a range'):
        parsed_settings(REPLICAS=value)


def test_servers_are_the_members_of_the_one_model() -> None:
    settings = parsed_settings(REPLICAS=SERVERS, MODEL_NAME="a/b")
    (model,) = settings.models.remote
    assert [server.url for server in (model.server, *model.others)] == ["http://a:8000", "http://b:8000"]
    assert (model.name, settings.model_name) == ("a/b", "")


def test_replicas_of_a_cluster_run_the_model_of_the_settings() -> None:
    settings = parsed_settings(REPLICAS="2..8", MODEL_NAME="a/b")
    assert (settings.model_name, settings.models.entries) == ("a/b", ())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"REPLICAS": SERVERS, "MODELS": [{"base_model": "a"}]}, "REPLICAS and MODELS are both set"),
        ({"REPLICAS": "4", "MODELS": [{"base_model": "a"}]}, "are of MODEL_NAME alone: remove MODELS"),
        ({"REPLICAS": "4", "INFERENCE_SERVER": "h:1"}, "INFERENCE_SERVER and REPLICAS are both set"),
        ({"REPLICAS": SERVERS, "INFERENCE_SERVER": "h:1"}, "INFERENCE_SERVER and REPLICAS are both set"),
        ({"REPLICAS": "4", "LORA_ADAPTERS": "a=/b"}, "have no adapters: remove LORA_ADAPTERS"),
        ({"REPLICAS": "replicate:x"}, "replicate is not supported"),
    ],
)
def test_settings_that_replicas_exclude_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        parsed_settings(**values)


def test_a_key_in_a_server_is_never_shown() -> None:
    settings = parsed_settings(REPLICAS="vllm:h:8000:/v1:secret")
    assert "secret" not in repr(settings)
