"""A replica: a deployment of Ray Serve whose actor runs a whole server of its own as a process.

Serve calls the methods; no request passes the actor. The server in front reaches the process over the link,
and finds its address in the directory.
"""

import asyncio
import logging
from dataclasses import replace

from inference.backend_info import BackendLoad
from inference.link_messages import LOAD_DECODER
from inference.on_demand.model_process import ModelProcess
from inference.on_demand.process_address import at_address
from inference.process.listen_address import find_free_port
from inference.remote.failures import UpstreamFailure
from inference.remote.http_client import HttpClient
from inference.remote.upstreams.link import LOAD_PATH, call
from inference.replicas.directory import RENEW_INTERVAL_S
from inference.replicas.scaling_policy import LOAD
from settings.remote_model import RemoteModel
from settings.schema import Settings

NAMESPACE = "hearth"  # of Ray, for the names of directories
LOAD_TIMEOUT_S = 5.0
KILL_MARGIN_S = 3.0  # beyond DRAIN_SECONDS, until a server that drains is killed

log = logging.getLogger(__name__)


class ServedReplica:
    """One replica, from its start to its end.

    model      as the server in front knows it; its server is not known yet
    settings   of the process, with the key of the link; the address is chosen here
    directory  the name of the directory's actor
    """

    async def __init__(self, model: RemoteModel, settings: Settings, directory: str) -> None:  # type: ignore[misc]
        import ray

        host = ray.util.get_node_ip_address()
        settings = replace(settings, host=host, port=find_free_port(host))
        self._model = at_address(model, settings)
        self._max_sequences = settings.max_sequences
        self._drain_s = settings.drain_seconds
        self._load: BackendLoad | None = None
        self._client = HttpClient(self._model)
        self._directory = ray.get_actor(directory, NAMESPACE)
        self._process = ModelProcess(self._model, settings)
        await self._process.start()
        await self._renew()
        self._renewal = asyncio.ensure_future(self._renew_always())

    def check_health(self) -> None:
        """Serve calls it each second: an error ends the replica, and another one is started."""
        if not self._process.is_running:
            raise RuntimeError("the server of the replica has ended")
        if self._load is None:
            raise RuntimeError("the server of the replica does not respond")

    def record_autoscaling_stats(self) -> dict[str, float]:
        """The load for the autoscaling policy."""
        return {LOAD: share_of_capacity(self._load or BackendLoad(), self._max_sequences)}

    async def __del__(self) -> None:
        """Serve scales down: take no new requests, and wait for the running answers."""
        self._renewal.cancel()
        await self._directory.leave.remote(self._model.server.url)
        await self._process.stop(self._drain_s + KILL_MARGIN_S)
        await self._client.close()

    async def _renew_always(self) -> None:
        """Renew the entry in the directory without Serve, whose controller may be gone for a time."""
        while True:
            await asyncio.sleep(RENEW_INTERVAL_S)
            try:
                await self._renew()
            except Exception:  # Ray has many; the next try may succeed
                log.exception("event=renewal_failed")

    async def _renew(self) -> None:
        """Ask the server for its load: only one that responds is listed."""
        self._load = await self._ask_load()
        if self._load is not None:
            await self._directory.renew.remote(self._model.server.url)

    async def _ask_load(self) -> BackendLoad | None:
        """The load of the server; None: it does not respond."""
        try:
            async with asyncio.timeout(LOAD_TIMEOUT_S):
                return await call(self._client, LOAD_PATH, b"", LOAD_DECODER)
        except (UpstreamFailure, TimeoutError):
            return None


def share_of_capacity(load: BackendLoad, max_sequences: int) -> float:
    """How busy a server is: 1 is a full batch or a full KV cache, more is a queue."""
    return max(load.kv_usage, (load.running + load.waiting) / max_sequences)
