"""The settings of replicas and of the server in front of them, and a start without a cluster."""

import sys

import pytest

from inference.replicas.cluster import NodeResources
from startup.replicas import check_on_cluster, front_settings, replica_settings
from tests.settings.parsed_settings import parsed_settings

CPU, GPU = NodeResources(4, 0), NodeResources(1, 2)


def test_a_replica_has_a_key_of_its_own_and_nothing_of_the_front() -> None:
    settings = parsed_settings(REPLICAS="2", API_KEYS="mine", CORS_ORIGINS="*", ROOT_PATH="/llm")
    own, other = replica_settings(settings, CPU), replica_settings(settings, CPU)
    assert len(own.api_keys[0]) > 30 and own.api_keys != other.api_keys
    assert (own.cors_origins, own.root_path, own.responses_store, bool(own.replicas)) == (
        (),
        "",
        "off",
        False,
    )


@pytest.mark.parametrize(("resources", "threads"), [(CPU, 4), (GPU, 1)])
def test_a_replica_computes_with_its_share_of_a_node(resources: NodeResources, threads: int) -> None:
    assert replica_settings(parsed_settings(REPLICAS="2"), resources).threads == threads


@pytest.mark.parametrize(
    ("resources", "limit", "num_requests"), [(CPU, 0, 512), (GPU, 0, 4096), (GPU, 10, 10)]
)
def test_the_front_takes_the_requests_of_all_replicas(
    resources: NodeResources, limit: int, num_requests: int
) -> None:
    settings = parsed_settings(REPLICAS="2..4", MAX_CONCURRENT_REQUESTS=limit)
    assert front_settings(settings, resources).max_concurrent_requests == num_requests


def test_without_ray_the_check_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert check_on_cluster(parsed_settings(REPLICAS="2", PORT=0), as_json=False) == 1
    assert 'fix: pip install "ray[serve]", on every node' in capsys.readouterr().out
