"""The start of a server whose model runs as replicas on a Ray cluster: checks, placement, and their pool."""

import asyncio
import secrets
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from api.services import Services
from checks.machine import find_port_error
from checks.machine.limits import max_open_files, raise_open_file_limit
from checks.report import format_json, format_table, print_findings
from checks.resources.network import check_open_files, check_open_host, check_port
from checks.resources.replicas import check_placement, replica_resources
from inference.finding import Finding
from inference.metrics import Metrics
from inference.models import ModelEntry, Models
from inference.remote.open import open_replicas
from inference.remote.upstreams.link import fetch_info
from inference.replicas.cluster import NoCluster, NodeResources, RayCluster, ReplicasFailed
from settings.device_defaults import fill_defaults
from settings.inference_server import InferenceServer
from settings.remote_model import RemoteModel
from settings.schema import Settings
from startup.engine import public_name
from startup.freeze_gc import freeze_gc
from startup.on_demand import MAX_STREAMS, SOCKET_URL, TIMEOUTS, private_settings
from startup.server import run_server
from startup.tls import check_tls


@dataclass(frozen=True, slots=True)
class Placement:
    """What the checks say of the cluster. cluster: None if there is none. resources: of each replica."""

    findings: Sequence[Finding]
    cluster: RayCluster | None
    resources: NodeResources

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)


def check_on_cluster(settings: Settings, *, as_json: bool) -> int:
    """Print what can be known before a replica starts. Returns 0 if the replicas can be placed, else 1."""
    check_tls(settings)
    with ExitStack() as stack:
        placement = find_placement(settings, stack)
    print(format_json(placement.findings) if as_json else format_table(placement.findings))
    return 0 if placement.ok else 1


def serve_on_cluster(settings: Settings, version: str) -> int:
    """Place the replicas, and serve them until a signal. Returns the exit code. Raises BadSetting."""
    check_tls(settings)
    with ExitStack() as stack:
        placement = find_placement(settings, stack)
        print_findings(placement.findings, settings)
        if placement.cluster is None or not placement.ok:
            return 1
        metrics = Metrics()
        try:
            models = place_replicas(settings, placement.cluster, placement.resources, metrics, stack)
        except ReplicasFailed as failure:
            print(f"hearth: the replicas do not start: {failure}", file=sys.stderr)
            return 1
        raise_open_file_limit()
        freeze_gc()
        front = front_settings(settings, placement.resources)
        return run_server(front, models, metrics, version, Services())


def find_placement(settings: Settings, stack: ExitStack) -> Placement:
    """Connect to the cluster, until the stack closes, and check whether it has room."""
    cluster, resources = None, NodeResources(0.0, 0.0)
    try:
        cluster = stack.enter_context(closing(RayCluster()))
        nodes = cluster.nodes()
        resources = replica_resources(settings, nodes)
        findings = check_placement(settings, resources, nodes)
    except NoCluster as error:
        findings = [Finding("Ray", "a cluster for REPLICAS", error.problem, False, error.fix)]
    return Placement([*check_front(front_settings(settings, resources)), *findings], cluster, resources)


def check_front(settings: Settings) -> list[Finding]:
    """What is checked of this server itself."""
    return [
        *check_open_host(settings.host, bool(settings.api_keys), settings.allow_open_host),
        check_port(settings.host, settings.port, find_port_error(settings.host, settings.port)),
        check_open_files(settings.max_concurrent_requests, max_open_files()),
    ]


def place_replicas(
    settings: Settings, cluster: RayCluster, resources: NodeResources, metrics: Metrics, stack: ExitStack
) -> Models:
    """Start the replicas, which end when the stack closes, and wait for the first. Raises ReplicasFailed."""
    own, name = replica_settings(settings, resources), public_name(settings.model_name)
    server = InferenceServer("link", SOCKET_URL)  # each replica chooses its address
    model = RemoteModel(name, name, server, max_concurrent=MAX_STREAMS, timeouts=TIMEOUTS)
    deployed = stack.enter_context(closing(cluster.deploy(model, own, settings.replicas, resources)))
    listing = deployed.wait_for_first()
    reported = asyncio.run(fetch_info(replace(model, server=listing.servers[0])))
    backend = open_replicas(model, listing.servers, deployed.list_servers, reported, metrics.upstream)
    names = (name, *settings.served_names)
    return Models(ModelEntry(backend, names, unlisted=(settings.model_name,), is_remote=True))


def replica_settings(settings: Settings, resources: NodeResources) -> Settings:
    """The settings of a replica's process: its cores, and a key that only this server knows."""
    own = fill_defaults(private_settings(settings), device_of(resources))
    threads = own.threads if resources.num_gpus else int(resources.num_cpus) // max(1, own.num_shard)
    return replace(own, threads=max(1, threads), api_keys=(secrets.token_urlsafe(),))


def front_settings(settings: Settings, resources: NodeResources) -> Settings:
    """The settings of this server: by default, it takes as many requests as all replicas together."""
    filled = fill_defaults(settings, device_of(resources))
    max_requests = settings.max_concurrent_requests or filled.max_concurrent_requests * settings.replicas.high
    return replace(filled, max_concurrent_requests=max_requests)


def device_of(resources: NodeResources) -> str:
    return "cuda" if resources.num_gpus else "cpu"
