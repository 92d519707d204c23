"""The Ray cluster: its nodes, and the replicas of a model. Ray Serve places, watches, scales and drains them.

Ray is an optional package, imported where it is used. Requests and answers do not pass it.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inference.process.child_program import ROOT
from inference.remote.listed_members import ServerList
from inference.replicas.directory import ReplicaDirectory
from inference.replicas.replica import NAMESPACE, ServedReplica, link_server
from inference.replicas.scaling_policy import choose_num_replicas
from settings.model_list import RemoteModel
from settings.replicas import ReplicaSpec
from settings.schema import Settings

INSTALL = 'pip install "ray[serve]"'
POLL_S = 0.2
CONNECT_TIMEOUT_S = 5.0
ASK_TIMEOUT_S = 5.0  # of the directory
HEALTH_INTERVAL_S, HEALTH_TIMEOUT_S = 1.0, 10.0
SHUTDOWN_MARGIN_S = 5.0  # beyond DRAIN_SECONDS, until Serve kills a replica
FAILED = ("DEPLOY_FAILED", "UNHEALTHY")  # states of an application
# Modules of this project in the processes of Ray.
ENVIRONMENT = {"env_vars": {"PYTHONPATH": str(ROOT)}}

log = logging.getLogger(__name__)


class NoCluster(Exception):
    """Ray is not installed, or its cluster cannot be reached. fix: what to do about the problem"""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem)
        self.problem, self.fix = problem, fix


class ReplicasFailed(Exception):
    """The replicas could not be started. The message is the reason."""


@dataclass(frozen=True, slots=True)
class NodeResources:
    """What a replica takes of a node, or a node has."""

    num_cpus: float
    num_gpus: float


@dataclass(frozen=True, slots=True)
class ScalingTimes:
    """Seconds: before replicas are added or removed, over which the load is averaged, between its reports."""

    up_s: float = 10.0
    down_s: float = 300.0
    average_s: float = 10.0
    report_s: float = 2.0


class RayCluster:
    """A connection to the cluster of RAY_ADDRESS, or else to the one that this machine is a node of."""

    def __init__(self) -> None:
        """Raises NoCluster."""
        try:
            import ray
            from ray import serve
        except ImportError:
            raise NoCluster("the package ray is not installed", f"{INSTALL}, on every node") from None
        self._ray, self._serve = ray, serve
        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        address = os.environ.get("RAY_ADDRESS") or "auto"
        try:
            check_reachable(address)
            ray.init(address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)
        except (OSError, RuntimeError, ValueError) as error:
            fix = "ray start --head on one machine, and RAY_ADDRESS=HOST:6379 if it is another one"
            raise NoCluster(f"none at {address}: {error}", fix) from None

    def nodes(self) -> list[NodeResources]:
        """The resources of each node that is alive, in use or not."""
        resources = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return [NodeResources(each.get("CPU", 0.0), each.get("GPU", 0.0)) for each in resources]

    def close(self) -> None:
        self._ray.shutdown()

    def deploy(
        self,
        model: RemoteModel,
        settings: Settings,
        replicas: ReplicaSpec,
        resources: NodeResources,
        times: ScalingTimes = ScalingTimes(),
    ) -> "DeployedReplicas":
        """Begin to start the replicas. They take the place of those that a former server left behind.

        settings: of a replica's process, with the key of the link
        """
        name = f"hearth {model.name}"
        self._serve.start(proxy_location="Disabled")
        if name in self._serve.status().applications:
            self._serve.delete(name)
        directory = self._start_directory(name)
        deployment = self._serve.deployment(
            ServedReplica,
            name="replica",
            ray_actor_options={
                "num_cpus": resources.num_cpus,
                "num_gpus": resources.num_gpus,
                "runtime_env": ENVIRONMENT,
            },
            health_check_period_s=HEALTH_INTERVAL_S,
            health_check_timeout_s=HEALTH_TIMEOUT_S,
            graceful_shutdown_timeout_s=settings.drain_seconds + SHUTDOWN_MARGIN_S,
            **scaling_options(replicas, times),
        )
        application = deployment.bind(model, settings, name)
        target = self._serve.RunTarget(application, name, route_prefix=None)
        self._serve.run_many(
            [target], wait_for_ingress_deployment_creation=False, wait_for_applications_running=False
        )
        return DeployedReplicas(self._serve, name, directory, settings)

    def _start_directory(self, name: str) -> Any:
        """The directory's actor, on this node: it lives as long as this process."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = self._ray.get_runtime_context().get_node_id()
        actor = self._ray.remote(ReplicaDirectory).options(
            name=name,
            num_cpus=0,
            max_restarts=-1,
            scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False),
            runtime_env=ENVIRONMENT,
        )
        return actor.remote()


class DeployedReplicas:
    """The replicas of one model, as an application of Ray Serve."""

    def __init__(self, serve: Any, name: str, directory: Any, settings: Settings) -> None:
        self._serve = serve
        self._name = name
        self._directory = directory
        self._settings = settings

    def wait_for_first(self) -> ServerList:
        """The list once it has a replica. Blocks. Raises ReplicasFailed."""
        while not (listing := asyncio.run(self.list_servers())).servers:
            application = self._serve.status().applications.get(self._name)
            if application is not None and application.status in FAILED:
                raise ReplicasFailed(describe_failure(application))
            time.sleep(POLL_S)
        return listing

    async def list_servers(self) -> ServerList:
        """The replicas that run; an empty list while Ray does not say."""
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                live, lost = await self._directory.list_urls.remote()
        except Exception as error:  # Ray has many, and the replicas answer without it
            log.warning("event=no_directory: %s", type(error).__name__)
            return ServerList()
        return ServerList([link_server(url, self._settings) for url in live], frozenset(lost))

    def close(self) -> None:
        """Drain and end all replicas."""
        self._serve.delete(self._name)


def check_reachable(address: str) -> None:
    """Raise OSError if nothing listens at host:port: Ray itself tries for more than a minute."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()


def scaling_options(replicas: ReplicaSpec, times: ScalingTimes) -> dict[str, Any]:
    """The options of a deployment for its number of replicas."""
    if replicas.is_fixed:
        return {"num_replicas": replicas.low}
    from ray.serve.config import AutoscalingConfig, AutoscalingPolicy

    return {
        "autoscaling_config": AutoscalingConfig(
            min_replicas=replicas.low,
            max_replicas=replicas.high,
            upscale_delay_s=times.up_s,
            downscale_delay_s=times.down_s,
            look_back_period_s=times.average_s,
            metrics_interval_s=times.report_s,
            policy=AutoscalingPolicy(policy_function=choose_num_replicas),
        )
    }


def describe_failure(application: Any) -> str:
    """The last line of what Serve says: the error that a replica raised."""
    messages: Sequence[str] = [each.message for each in application.deployments.values()]
    text = next(filter(None, [*messages, application.message]), "no reason")
    return text.strip().splitlines()[-1]
