"""The start of the models of this machine that run in processes of their own: checks, memory plan, loader."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

from checks.machine import Machine
from checks.model.adapters import check_distinct
from checks.preflight import PreflightReport, preflight
from checks.several_models import ModelShare, PlannedModel, check_together, share_memory, with_adapters
from hub.resolve import PendingRepository, resolve_in_background
from inference.backend import Backend
from inference.finding import Finding
from inference.metrics import Metrics
from inference.models import ModelEntry
from inference.on_demand.loader import ModelLoader
from inference.on_demand.managed_model import LoadLimits, ManagedModel
from inference.on_demand.model_adapters import ModelAdapters
from inference.on_demand.model_process import ModelProcess
from inference.on_demand.model_residence import ModelResidence
from inference.on_demand.process_address import at_address, private_address
from inference.on_demand.residency import MemoryCapacity
from inference.remote.open import open_child
from inference.remote.upstreams.link import LinkAdapters
from settings.groups import OFF
from settings.inference_server import InferenceServer
from settings.local_model import LocalModel
from settings.model_list import ServedModels
from settings.remote_model import RemoteModel, Timeouts
from settings.replicas import ReplicaSpec
from settings.schema import Settings
from settings.sources import settings_of_model

HOME = Path(__file__).resolve().parent.parent
SOCKET_URL = "http://localhost"
MAX_STREAMS = 8192  # MAX_CONCURRENT_REQUESTS is the users' limit: a request may have many prompts
TIMEOUTS = Timeouts(first=3600.0, silence=600.0)  # requests wait in the engine's queue, as in one process
NETWORK = ("host", "port", "open files")  # findings about the server, not about a model


@dataclass(frozen=True, slots=True)
class CheckedModels:
    """The models of this machine, and what the checks say.

    reports   of each model alone, by its name
    together  of all models; None: one of them is refused alone, or there is none
    adapters  refusals of adapters whose names others have
    """

    models: Sequence[LocalModel]
    reports: Mapping[str, PreflightReport]
    together: Finding | None
    adapters: Sequence[Finding] = ()

    @property
    def ok(self) -> bool:
        is_fitting = not self.models or (self.together is not None and self.together.ok)
        return is_fitting and not self.adapters

    @property
    def findings(self) -> list[Finding]:
        named = [
            replace(finding, name=f"{name}: {finding.name}")
            for name, report in self.reports.items()
            for finding in report.findings
            if finding.name not in NETWORK
        ]
        return [*named, *self.adapters, *([self.together] if self.together else [])]

    @property
    def machine(self) -> Machine:
        """The machine as it was before the first model."""
        return next(iter(self.reports.values())).machine

    @property
    def planned(self) -> list[PlannedModel]:
        """The models that are not refused."""
        planned = []
        for model in self.models:
            report = self.reports[model.name]
            if report.ok and report.plan is not None:
                planned.append(PlannedModel(model.name, report.plan, model.is_pinned))
        return planned


def find_models(
    settings: Settings, *, refresh: bool = False
) -> list[tuple[LocalModel, Settings, PendingRepository]]:
    """Each model with its own settings, while it is looked up. refresh: ask the Hub for a newer version."""
    own_settings = [settings_of_model(settings, model) for model in settings.models.on_demand]
    return [
        (model, own, resolve_in_background(own, HOME, refresh=refresh))
        for model, own in zip(settings.models.on_demand, own_settings, strict=True)
    ]


def check_models(settings: Settings) -> CheckedModels:
    """Run the checks of each model, and of all together."""
    models, pending_models = settings.models.on_demand, find_models(settings)
    reports = {
        model.name: preflight(replace(own, host="localhost", port=0, prometheus_port=0), pending)
        for model, own, pending in pending_models
    }
    names = {name for entry in settings.models.entries for name in (entry.name, *entry.aliases)}
    items = {model.name: own.lora_adapters for model, own, _ in pending_models}
    checked = CheckedModels(models, reports, None, check_distinct(items, names))
    if not models or len(checked.planned) < len(models):
        return checked
    together = check_together(checked.planned, checked.machine, settings.max_loaded_models)
    return replace(checked, together=together)


def open_loader(
    settings: Settings, checked: CheckedModels, folder: Path, metrics: Metrics
) -> tuple[ModelLoader, list[ModelEntry]]:
    """What loads the checked models, and their entries. folder: private, for the processes' sockets."""
    shared = share_memory(checked.planned, checked.machine, settings.max_loaded_models)
    capacity = MemoryCapacity(shared.capacity, settings.max_loaded_models or len(checked.models))
    limits = LoadLimits(settings.load_wait_seconds, settings.model_swap_seconds)
    processes: dict[str, Callable[[], ModelProcess]] = {}
    loader = ModelLoader((), capacity, limits, lambda name: processes[name](), metrics.on_demand)
    entries, adapter_numbers = [], count(1)
    for number, model in enumerate(checked.models):
        share = shared.shares[model.name]
        own = child_settings(settings, model, share, folder / f"{number}.sock")
        managed = managed_model(settings, model, share)
        backend, _, processes[model.name] = open_model(loader, managed, model, own, adapter_numbers, metrics)
        entries.append(ModelEntry(backend, (model.name, *model.aliases), (model.base_model,), is_remote=True))
    return loader, entries


def open_model(
    loader: ModelLoader,
    managed: ManagedModel,
    model: LocalModel,
    own: Settings,
    adapter_numbers: Iterator[int],
    metrics: Metrics,
) -> tuple[Backend, ModelAdapters, Callable[[], ModelProcess]]:
    """Add a model to the loader. Returns its backend with its adapters, and what makes the process of both.

    own: the settings of the process
    """
    loader.add(managed)
    upstream, residence = upstream_model(model, own), ModelResidence(loader, model.name)
    adapters = open_adapters(managed, upstream, own, residence, adapter_numbers)
    backend = open_child(upstream, residence, metrics.upstream, managed.running_answers, adapters)
    return backend, adapters, partial(ModelProcess, upstream, own, adapters)


def open_adapters(
    model: ManagedModel,
    upstream: RemoteModel,
    own: Settings,
    residence: ModelResidence,
    numbers: Iterator[int],
) -> ModelAdapters:
    """The adapters of a model: those that are loaded while it serves add to its needs.

    own: the settings of its process
    """
    planned = model.needs

    def record_bytes(num_bytes: int) -> None:
        model.needs = with_adapters(planned, num_bytes, own.num_shard)

    return ModelAdapters(
        residence, LinkAdapters(upstream), own.lora_adapters, numbers, own.max_loras, record_bytes
    )


def managed_model(settings: Settings, model: LocalModel, share: ModelShare) -> ManagedModel:
    keep_alive_s = settings.keep_alive if model.keep_alive is None else model.keep_alive
    return ManagedModel(model.name, share.num_bytes, keep_alive_s, model.is_pinned)


def upstream_model(model: LocalModel, own: Settings) -> RemoteModel:
    """The model as the server reaches it: behind the socket or the port of its process."""
    remote = RemoteModel(
        model.name,
        upstream_name=model.name,
        server=InferenceServer("link", SOCKET_URL),
        context=own.context,
        max_concurrent=MAX_STREAMS,
        timeouts=TIMEOUTS,
    )
    return at_address(remote, own)


def child_settings(settings: Settings, model: LocalModel, share: ModelShare, socket: Path) -> Settings:
    """The settings of the process that serves the model: its own, an address, and a share of the memory.

    socket: its path, if the system has Unix sockets, see private_address
    """
    host, port = private_address(socket)
    return replace(
        private_settings(settings_of_model(settings, model)),
        context=share.context,
        kv_memory_gb=share.kv_memory_bytes / 1e9,
        host=host,
        port=port,
        api_keys=(secrets.token_urlsafe(),) if port else (),
    )


def private_settings(settings: Settings) -> Settings:
    """The settings of a process of one model, which only this server reaches.

    This server checks keys, origins and sizes, stores responses, and limits requests.
    """
    return replace(
        settings,
        models=ServedModels(),
        inference_server="",
        replicas=ReplicaSpec(),
        port=0,
        prometheus_port=0,
        root_path="",
        ssl_certfile="",
        ssl_keyfile="",
        api_keys=(),
        cors_origins=(),
        responses_store=OFF,
        tuning_dir=OFF,
        request_timeout=0.0,
    )
