"""The start of tuning: its service, and what serves fully fine-tuned models beside the base.

Each of these models has a process of its own, which is loaded when a request names the model or an adapter
over it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from checks.machine import Machine
from checks.memory.plan import Plan
from checks.several_models import ModelShare, capacity_of, minimum_bytes, share_of
from inference.errors import NotFound, Unavailable
from inference.metrics import Metrics
from inference.model.load_recipe import find_weight_file
from inference.models import ModelEntry, Models
from inference.on_demand.loader import ModelLoader
from inference.on_demand.managed_model import LoadLimits, ManagedProcess
from inference.on_demand.model_adapters import ModelAdapters
from inference.on_demand.residency import MemoryCapacity
from settings.local_model import LocalModel
from settings.schema import Settings
from startup.engine import model_settings
from tuning.open_service import open_service, with_free_memory
from tuning.service import TuningService

FIRST_ADAPTER_NUMBER = 1 << 32  # of their adapters' loads: those of the base are counted from 1
MAX_LOADED = 64  # fine-tuned models in memory together, unless MAX_LOADED_MODELS says less


class FineTunedHost:
    """A ModelHost over a loader of models on demand.

    plan     of the base, whose architecture and size the models have
    machine  with the memory that is free beside the base
    """

    def __init__(
        self, settings: Settings, models: Models, plan: Plan, machine: Machine, metrics: Metrics
    ) -> None:
        self._settings, self._models, self._metrics = settings, models, metrics
        self._socket_folder: TemporaryDirectory[str] | None = None
        self._share = share_of_each(plan, machine)
        self._processes: dict[str, Callable[[], ManagedProcess]] = {}
        self._adapters: dict[str, ModelAdapters] = {}  # by the names of their models
        self._num_added = 0
        self._adapter_numbers = count(FIRST_ADAPTER_NUMBER)
        self.loader = ModelLoader(
            (),
            MemoryCapacity(capacity_of(machine), settings.max_loaded_models or MAX_LOADED),
            LoadLimits(settings.load_wait_seconds, settings.model_swap_seconds),
            lambda name: self._processes[name](),
            metrics.on_demand,
        )

    def add(self, name: str, folder: Path, parent: str) -> None:
        # Its HTTP client takes 0.2 s to import, which a server without such models saves.
        from startup.on_demand import child_settings, managed_model, open_model

        model = LocalModel(name, str(folder))
        own = child_settings(base_settings(self._settings), model, self._share, self._next_socket())
        managed = managed_model(self._settings, model, self._share)
        backend, self._adapters[name], self._processes[name] = open_model(
            self.loader, managed, model, own, self._adapter_numbers, self._metrics
        )
        self._models.add(ModelEntry(backend, (name,), is_remote=True, parent=parent))

    def add_adapter(self, base: str, name: str, folder: Path, *, is_tried: bool) -> None:
        if base not in self._adapters:
            raise NotFound(f"its model {base} is not served")
        adapters = self._adapters[base]
        if is_tried:
            with suppress(Unavailable):  # no memory for the model now, or the server is starting
                adapters.load(name, folder, name, replace=True)
                return
        adapters.add(name, folder, name)

    def remove(self, name: str) -> None:
        if name in self._adapters:
            self.loader.remove(name)
            self._models.remove(name)
            del self._adapters[name]
            return
        owners = [each for each in self._adapters.values() if any(card.name == name for card in each.cards())]
        if not owners:
            raise NotFound(f"model {name!r} not found")
        owners[0].unload(name)

    def close(self) -> None:
        """End the models' processes."""
        self.loader.close()
        if self._socket_folder is not None:
            self._socket_folder.cleanup()

    def _next_socket(self) -> Path:
        """The path of a further process's socket.

        Its private folder is made for the first one: a server without such models, which is the usual one,
        leaves nothing behind when it is killed.
        """
        if self._socket_folder is None:
            self._socket_folder = TemporaryDirectory(prefix="hearth-")
        self._num_added += 1
        return Path(self._socket_folder.name) / f"{self._num_added}.sock"


@contextmanager
def open_tuning(
    settings: Settings, models: Models, model_folder: Path, plan: Plan, machine: Machine, metrics: Metrics
) -> Iterator[tuple[TuningService | None, ModelLoader | None]]:
    """The tuning service, and the loader of the models that it has trained; None: there is no tuning.

    model_folder  of the base, or its GGUF file; plan, machine: with which it was loaded
    """
    free = with_free_memory(plan, machine)
    host = FineTunedHost(settings, models, plan, free, metrics)
    weight_file = find_weight_file(model_folder, model_settings(settings, plan))
    service = open_service(settings, models, model_folder, plan, machine, host=host, weight_file=weight_file)
    if service is None:
        yield None, None
        return
    metrics.registry.register(service.metrics)
    metrics.registry.register(service.runs.metrics)
    try:
        yield service, host.loader
    finally:
        service.close()
        host.close()


def share_of_each(plan: Plan, machine: Machine) -> ModelShare:
    """The minimum of a model and half of what is left: the other half is for trainers and further models."""
    minimum = minimum_bytes(plan)
    spare = {
        device: max(0, num_bytes - minimum.get(device, 0)) // 2
        for device, num_bytes in capacity_of(machine).items()
    }
    return share_of(plan, machine, spare)


def base_settings(settings: Settings) -> Settings:
    """The base's settings without those that say where it comes from, and which adapters it has."""
    return replace(settings, model_revision="", gguf_file="", lora_adapters=(), served_names=())
