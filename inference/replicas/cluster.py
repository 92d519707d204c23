"""The Ray cluster: its nodes, and the replicas of a model. Ray Serve places, watches, scales and drains them.

Ray is an optional package, imported where it is used. Requests and answers do not pass it.
"""

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from inference.on_demand.process_address import link_server
from inference.process.child_program import ROOT
from inference.remote.members.listed_members import ServerList
from inference.replicas.directory import ReplicaDirectory
from inference.replicas.replica import NAMESPACE, ServedReplica
from inference.replicas.scaling_policy import choose_num_replicas
from settings.remote_model import RemoteModel
from settings.replicas import ReplicaSpec
from settings.schema import Settings

INSTALL = 'pip install "ray[serve]"'
POLL_S = 0.2
CONNECT_TIMEOUT_S = 5.0
ASK_TIMEOUT_S = 5.0  # of the directory
HEALTH_INTERVAL_S, HEALTH_TIMEOUT_S = 1.0, 10.0
MAX_START_RETRIES = 2  # of the first replicas, in all; later ones are tried without an end
SCALE_UP_AFTER_S, SCALE_DOWN_AFTER_S = 10.0, 300.0
AVERAGE_S, REPORT_INTERVAL_S = 10.0, 2.0  # of the load that decides it
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
        signal.signal(signal.SIGTERM, end_start)

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
            max_constructor_retry_count=MAX_START_RETRIES,
            graceful_shutdown_timeout_s=settings.drain_seconds + SHUTDOWN_MARGIN_S,
            **scaling_options(replicas),
        )
        application = deployment.bind(model, settings, name)
        target = self._serve.RunTarget(application, name, route_prefix=None)
        self._serve.run_many(
            [target], wait_for_ingress_deployment_creation=False, wait_for_applications_running=False
        )
        return DeployedReplicas(self._serve, name, directory, settings)

    def _start_directory(self, name: str) -> Any:
        """The directory's actor, on this node: it lives as long as this process. Waits until it answers."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = self._ray.get_runtime_context().get_node_id()
        actor = self._ray.remote(ReplicaDirectory).options(
            name=name,
            num_cpus=0,
            max_restarts=-1,
            scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False),
            runtime_env=ENVIRONMENT,
        )
        directory = actor.remote()
        self._ray.get(directory.list_urls.remote())
        return directory


class DeployedReplicas:
    """The replicas of one model, as an application of Ray Serve."""

    def __init__(self, serve: Any, name: str, directory: Any, settings: Settings) -> None:
        self._serve = serve
        self._name = name
        self._directory = directory
        self._settings = settings
        self._problem = ""

    def wait_for_first(self) -> ServerList:
        """The list once it has a replica. Blocks, and logs why it does. Raises ReplicasFailed."""
        logged = ""
        while not (listing := asyncio.run(self.list_servers())).servers:
            if application := self._serve.status().applications.get(self._name):
                lines = message_lines(application)
                if application.status in FAILED:
                    raise ReplicasFailed(lines[-1])
                if lines[0] != logged:
                    log.info("event=waiting_for_replica: %s", logged := lines[0])
            time.sleep(POLL_S)
        return listing

    async def list_servers(self) -> ServerList:
        """The replicas that run; an empty list while Ray does not say."""
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                live, lost = await self._directory.list_urls.remote()
        except Exception as error:  # Ray has many, and the replicas answer without it
            self._note_problem(type(error).__name__)
            return ServerList()
        self._note_problem("")
        return ServerList([link_server(url, self._settings) for url in live], frozenset(lost))

    def close(self) -> None:
        """Drain and end all replicas."""
        self._serve.delete(self._name)

    def _note_problem(self, problem: str) -> None:
        """Log why the directory does not answer, once."""
        if problem and problem != self._problem:
            log.warning("event=no_directory: %s", problem)
        self._problem = problem


def check_reachable(address: str) -> None:
    """Raise OSError if nothing listens at host:port: Ray itself tries for more than a minute."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()


def scaling_options(replicas: ReplicaSpec) -> dict[str, Any]:
    """The options of a deployment for its number of replicas."""
    if replicas.is_fixed:
        return {"num_replicas": replicas.low}
    from ray.serve.config import AutoscalingConfig, AutoscalingPolicy

    return {
        "autoscaling_config": AutoscalingConfig(
            min_replicas=replicas.low,
            max_replicas=replicas.high,
            upscale_delay_s=SCALE_UP_AFTER_S,
            downscale_delay_s=SCALE_DOWN_AFTER_S,
            look_back_period_s=AVERAGE_S,
            metrics_interval_s=REPORT_INTERVAL_S,
            policy=AutoscalingPolicy(policy_function=choose_num_replicas),
        )
    }


def message_lines(application: Any) -> list[str]:
    """What Serve says of the deployment: a state and its cause, or a traceback that ends with an error."""
    messages: Sequence[str] = [each.message for each in application.deployments.values()]
    text = next(filter(None, [*messages, application.message]), "it starts")
    return text.strip().splitlines()


def end_start(signal_number: int, frame: FrameType | None) -> None:
    """End a start as Ctrl-C does: with Ray's own handler, the replicas would stay."""
    raise KeyboardInterrupt
