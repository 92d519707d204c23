"""Whether a cluster has room for the replicas of REPLICAS, before any of them loads a model."""

from collections.abc import Sequence

from inference.finding import Finding, format_count
from inference.replicas.cluster import NodeResources
from settings.schema import Settings

ADD_NODES = "add nodes: ray start --address=HOST:6379 on further machines"


def replica_resources(settings: Settings, nodes: Sequence[NodeResources]) -> NodeResources:
    """What a replica takes of its node: NUM_SHARD GPUs, or THREADS cores.

    THREADS = 0 means all cores of the smallest node, NUM_SHARD = 0 all its GPUs.
    """
    num_gpus = min((node.num_gpus for node in nodes if node.num_gpus), default=0.0)
    if settings.device == "cuda" or (settings.device == "auto" and num_gpus):
        return NodeResources(1.0, float(settings.num_shard or num_gpus or 1))
    num_cpus = min((node.num_cpus for node in nodes if node.num_cpus), default=1.0)
    return NodeResources(float(settings.threads * max(1, settings.num_shard) or num_cpus), 0.0)


def check_placement(
    settings: Settings, resources: NodeResources, nodes: Sequence[NodeResources]
) -> list[Finding]:
    """Check that the fewest replicas fit, and that those on one node divide its memory."""
    replicas, num_each = settings.replicas, [num_fitting(resources, node) for node in nodes]
    count = format_count(replicas.low, "replica") + ("" if replicas.is_fixed else f", up to {replicas.high}")
    need, num_fit = f"{count}, each with {describe(resources)}", sum(num_each)
    have = f"{format_count(len(nodes), 'node')} with room for {num_fit}"
    if num_fit < replicas.low:
        fix = f'set REPLICAS = "{num_fit}", or {ADD_NODES}' if num_fit else ADD_NODES
        return [Finding("replicas", need, have, False, fix)]
    findings = [Finding("replicas", need, have, True, ADD_NODES if num_fit < replicas.high else "")]
    if max(num_each) > 1 and not resources.num_gpus and not settings.kv_memory_gb:
        fix = "set KV_MEMORY_GB, or THREADS = 0 for one replica on each node"
        findings.append(Finding("replicas", "KV_MEMORY_GB for several on a node", "not set", False, fix))
    return findings


def num_fitting(resources: NodeResources, node: NodeResources) -> int:
    """Replicas that the node has room for."""
    by_cpus = node.num_cpus // resources.num_cpus
    return int(min(by_cpus, node.num_gpus // resources.num_gpus) if resources.num_gpus else by_cpus)


def describe(resources: NodeResources) -> str:
    gpus = f" and {format_count(int(resources.num_gpus), 'GPU')}" if resources.num_gpus else ""
    return format_count(int(resources.num_cpus), "core") + gpus
