"""What a replica takes of a node, and whether the nodes have room for as many as REPLICAS says."""

from typing import Any

import pytest

from checks.resources.replicas import check_placement, replica_resources
from inference.finding import Finding
from inference.replicas.cluster import NodeResources
from tests.settings.parsed_settings import parsed_settings

CPU_NODES = [NodeResources(4, 0), NodeResources(8, 0)]
GPU_NODES = [NodeResources(16, 0), NodeResources(16, 4), NodeResources(16, 2)]


def placement(nodes: list[NodeResources], **values: Any) -> list[Finding]:
    settings = parsed_settings(**values)
    return check_placement(settings, replica_resources(settings, nodes), nodes)


@pytest.mark.parametrize(
    ("nodes", "values", "resources"),
    [
        (CPU_NODES, {}, NodeResources(4, 0)),
        (CPU_NODES, {"THREADS": 2}, NodeResources(2, 0)),
        (CPU_NODES, {"THREADS": 2, "NUM_SHARD": 2}, NodeResources(4, 0)),
        (GPU_NODES, {}, NodeResources(1, 1)),
        (GPU_NODES, {"NUM_SHARD": 2}, NodeResources(1, 2)),
        (GPU_NODES, {"NUM_SHARD": 0}, NodeResources(1, 2)),
        (GPU_NODES, {"DEVICE": "cpu"}, NodeResources(16, 0)),
        (CPU_NODES, {"DEVICE": "cuda"}, NodeResources(1, 1)),
    ],
)
def test_a_replica_takes_a_node_its_threads_or_its_gpus(
    nodes: list[NodeResources], values: dict[str, Any], resources: NodeResources
) -> None:
    assert replica_resources(parsed_settings(**values), nodes) == resources


def test_too_many_replicas_are_refused_with_how_many_fit() -> None:
    (finding,) = placement(GPU_NODES, REPLICAS="7..9")
    assert not finding.ok
    assert finding.need == "7 replicas, up to 9, each with 1 core and 1 GPU"
    assert finding.have == "3 nodes with room for 6"
    assert finding.fix.startswith('set REPLICAS = "6", or add nodes: ray start --address=')


def test_a_cluster_without_room_for_one_needs_nodes() -> None:
    (finding,) = placement(CPU_NODES, REPLICAS="1", DEVICE="cuda")
    assert not finding.ok and finding.fix.startswith("add nodes:")


def test_a_replica_fits_on_one_node_or_not_at_all() -> None:
    (finding,) = placement([NodeResources(2, 0)] * 4, REPLICAS="1", THREADS=4)
    assert not finding.ok and finding.have == "4 nodes with room for 0"


def test_room_for_the_fewest_replicas_suffices_with_a_warning() -> None:
    (finding,) = placement(GPU_NODES, REPLICAS="2..8")
    assert finding.ok and finding.fix.startswith("add nodes:")


@pytest.mark.parametrize(
    ("values", "is_ok"), [({"THREADS": 2}, False), ({"THREADS": 2, "KV_MEMORY_GB": 1}, True)]
)
def test_replicas_on_one_node_divide_its_memory_by_a_setting(values: dict[str, Any], is_ok: bool) -> None:
    findings = placement(CPU_NODES, REPLICAS="2", **values)
    assert all(finding.ok for finding in findings) == is_ok
