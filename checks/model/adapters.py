"""Checks the adapters of LORA_ADAPTERS against the shapes of the model, before its weights are fetched.

Reads the config and the header of each, on the disk or the Hub; the values only on the disk. Whether the
model computes with an adapter is tried when it is loaded.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from checks.memory import try_build_on_meta
from checks.memory.plan import Plan
from hub.client import Hub
from hub.fetch_adapter import inspect_adapter, split_source
from hub.repository import Repository
from hub.tensors import DTYPES
from inference.errors import BadRequest
from inference.finding import Finding, Refused, format_count, format_size
from inference.lora.adapter import check_own_name
from inference.lora.check import CheckedAdapter, check_adapter, check_shapes
from inference.lora.fence import is_gguf_file
from inference.lora.files import Shape, TensorFile, check_dtype
from inference.lora.gguf_adapter import AdapterFolders
from inference.models import is_placeholder
from settings.adapter_list import AdapterEntry, parse_entry
from settings.schema import Settings

NAME = "adapter"
FIX_NAME = "give it another one in LORA_ADAPTERS of the model's settings: name=path"
FIX = "remove it from LORA_ADAPTERS, or train it on this model"

# (item of LORA_ADAPTERS, its folder or what the Hub has) -> the check; raises BadRequest
CheckFit = Callable[[str, Repository | Path], "AdapterCheck"]


@dataclass(frozen=True, slots=True)
class AdapterCheck:
    """The check of one adapter.

    num_values: numbers that the adapter has in memory; 0 if it is refused or unknown.
    """

    finding: Finding
    num_values: int = 0


def check_adapters(settings: Settings, plan: Plan, hub: Hub) -> list[AdapterCheck]:
    """One check for each adapter; none is fetched."""
    if not settings.lora_adapters:
        return []
    model = try_build_on_meta(plan.repository.config)
    check_fit = partial(check_files, model, settings.max_lora_rank)
    return [check_item(item, settings, check_fit if model else None, hub) for item in settings.lora_adapters]


def num_resident_values(checks: Sequence[AdapterCheck], max_loras: int) -> int:
    """The numbers of the largest adapters, of which max_loras are in memory at a time."""
    return sum(sorted((each.num_values for each in checks), reverse=True)[:max_loras])


def check_distinct(items: Mapping[str, Sequence[str]], model_names: Collection[str]) -> list[Finding]:
    """A refusal of each adapter that has the name of a model, or of an adapter of another model.

    items: of LORA_ADAPTERS, by the name of their model
    """
    owners: dict[str, str] = {}
    findings = []
    for model, own_items in items.items():
        for item in own_items:
            name = parse_entry(item).name
            owner = "a model" if name in model_names else f"an adapter of {owners.setdefault(name, model)}"
            if owner != f"an adapter of {model}":
                findings.append(Finding(f"{model}: {NAME}", item, f"{owner} has its name", False, FIX_NAME))
    return findings


def check_item(item: str, settings: Settings, check_fit: CheckFit | None, hub: Hub) -> AdapterCheck:
    """Check one adapter. check_fit: compares it with the model; None if only loading can build that."""
    try:
        entry = parse_entry(item)
        check_own_name(entry.name, is_model_name(settings))
        place = locate(entry, hub, offline=settings.offline)
        if check_fit is None:
            have = "checked when the model is loaded, which its own code must build"
            return AdapterCheck(Finding(NAME, item, have, True))
        return check_fit(item, place)
    except Refused as error:
        return AdapterCheck(Finding(NAME, item, error.finding.have, False, error.finding.fix))
    except BadRequest as error:
        return AdapterCheck(Finding(NAME, item, error.message, False, FIX))


def is_model_name(settings: Settings) -> Callable[[str], bool]:
    """Whether requests name the model so."""
    folder_name = Path(settings.model_name).expanduser().resolve().name
    names = (settings.model_name, folder_name, *settings.served_names)
    return lambda name: name in names or is_placeholder(name)


def locate(entry: AdapterEntry, hub: Hub, *, offline: bool) -> Repository | Path:
    """The folder or file of an adapter on the disk, or what the Hub has. Raises Refused and BadRequest."""
    place = Path(entry.source).expanduser()
    if place.is_dir() or is_gguf_file(place):
        return place
    if split_source(entry.source) is None:
        raise BadRequest("", f"{entry.source} is neither a folder nor owner/name on the Hub")
    repository = inspect_adapter(hub, entry.source, entry.revision, offline=offline)
    return repository.folder or repository


def check_files(model: Any, max_rank: int, item: str, place: Repository | Path) -> AdapterCheck:
    """Check the config, the header and, on the disk, that all values are finite. Raises BadRequest.

    model: on the meta device
    """
    if isinstance(place, Path):
        folders = AdapterFolders(model.config.get_text_config())
        checked = check_adapter(model, folders.folder_of(place.resolve()), max_rank)
        check_values(checked)
        return describe(item, checked, "")
    to_fetch = f", {format_size(place.bytes_to_fetch)} to fetch"
    headers, folder = place.headers, place.metadata_folder
    assert headers is not None and folder is not None
    if headers.tensors is None and not headers.malformed_reason:
        have = f"checked once it is fetched: {headers.unavailable_reason}"
        return AdapterCheck(Finding(NAME, item, f"{have}{to_fetch}", True))
    if headers.tensors is None:
        raise BadRequest(NAME, f"has weights that cannot be read: {headers.malformed_reason}")
    shapes = header_shapes(headers.tensors)
    return describe(item, check_shapes(model, folder, shapes, max_rank), to_fetch)


def header_shapes(tensors: Mapping[str, Any]) -> Mapping[str, Shape]:
    """The shapes of the tensors, on the meta device. Raises BadRequest for a dtype that is not read."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    for key, values in tensors.items():
        check_dtype(key, names[values.dtype])
    return {key: tuple(values.shape) for key, values in tensors.items()}


def check_values(checked: CheckedAdapter) -> None:
    """Raise BadRequest for values that are not finite."""
    file = TensorFile(checked.folder)
    for keys in checked.modules.values():
        for key in keys.values():
            file.read(key)


def describe(item: str, checked: CheckedAdapter, note: str) -> AdapterCheck:
    rank = f"rank {checked.rank}, " if checked.rank else ""
    have = f"{rank}{format_count(len(checked.modules), 'module')} of the model{note}"
    return AdapterCheck(Finding(NAME, item, have, True), checked.num_values)
