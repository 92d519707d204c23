"""The start of the models of this machine that run in processes of their own: checks, memory plan, loader."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from checks.machine import Machine
from checks.preflight import PreflightReport, preflight
from checks.several_models import ModelShare, PlannedModel, check_together, share_memory
from hub.resolve import PendingRepository, resolve_in_background
from inference.finding import Finding
from inference.metrics import Metrics
from inference.models import ModelEntry
from inference.on_demand.loader import ModelLoader
from inference.on_demand.managed_model import LoadLimits, ManagedModel
from inference.on_demand.model_process import ModelProcess
from inference.on_demand.model_residence import ModelResidence
from inference.on_demand.residency import MemoryCapacity
from inference.remote.open import open_child
from settings.groups import OFF
from settings.inference_server import InferenceServer
from settings.local_model import LocalModel
from settings.model_list import RemoteModel, ServedModels, Timeouts
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
    """

    models: Sequence[LocalModel]
    reports: Mapping[str, PreflightReport]
    together: Finding | None

    @property
    def ok(self) -> bool:
        return not self.models or (self.together is not None and self.together.ok)

    @property
    def findings(self) -> list[Finding]:
        named = [
            replace(finding, name=f"{name}: {finding.name}")
            for name, report in self.reports.items()
            for finding in report.findings
            if finding.name not in NETWORK
        ]
        return [*named, self.together] if self.together else named

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
    models = settings.models.on_demand
    reports = {
        model.name: preflight(replace(own, host="localhost", port=0, prometheus_port=0), pending)
        for model, own, pending in find_models(settings)
    }
    checked = CheckedModels(models, reports, None)
    if not models or len(checked.planned) < len(models):
        return checked
    together = check_together(checked.planned, checked.machine, settings.max_loaded_models)
    return replace(checked, together=together)


def open_loader(
    settings: Settings, checked: CheckedModels, folder: Path, metrics: Metrics
) -> tuple[ModelLoader, list[ModelEntry]]:
    """What loads the checked models, and their entries. folder: private, for the processes' sockets."""
    shared = share_memory(checked.planned, checked.machine, settings.max_loaded_models)
    managed = [managed_model(settings, model, shared.shares[model.name]) for model in checked.models]
    own_settings = {
        model.name: child_settings(settings, model, shared.shares[model.name], folder / f"{number}.sock")
        for number, model in enumerate(checked.models)
    }
    upstreams = {model.name: upstream_model(model, own_settings[model.name]) for model in checked.models}
    loader = ModelLoader(
        managed,
        MemoryCapacity(shared.capacity, settings.max_loaded_models or len(managed)),
        LoadLimits(settings.load_wait_seconds, settings.model_swap_seconds),
        lambda name: ModelProcess(upstreams[name], own_settings[name]),
        metrics.on_demand,
    )
    entries = [
        ModelEntry(
            open_child(upstreams[model.name], ModelResidence(loader, model.name), metrics.upstream),
            (model.name, *model.aliases),
            (model.base_model,),
            is_remote=True,
        )
        for model in checked.models
    ]
    return loader, entries


def managed_model(settings: Settings, model: LocalModel, share: ModelShare) -> ManagedModel:
    keep_alive_s = settings.keep_alive if model.keep_alive is None else model.keep_alive
    return ManagedModel(model.name, share.num_bytes, keep_alive_s, model.is_pinned)


def upstream_model(model: LocalModel, own: Settings) -> RemoteModel:
    """The model as the server reaches it: behind the socket of its process."""
    return RemoteModel(
        model.name,
        upstream_name=model.name,
        server=InferenceServer("hearth", SOCKET_URL),
        socket=own.host,
        context=own.context,
        max_concurrent=MAX_STREAMS,
        timeouts=TIMEOUTS,
    )


def child_settings(settings: Settings, model: LocalModel, share: ModelShare, socket: Path) -> Settings:
    """The settings of the process that serves the model: its own, on a socket, with its share of the memory.

    The parent checks keys, origins and sizes, stores responses, and limits requests.
    """
    return replace(
        settings_of_model(settings, model),
        models=ServedModels(),
        inference_server="",
        context=share.context,
        kv_memory_gb=share.kv_memory_bytes / 1e9,
        host=str(socket),
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
