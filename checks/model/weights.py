"""Checks that the weight files are complete, safe to read, and have the model's tensors."""

from checks.machine import Machine
from checks.memory.plan import Plan
from hub.repository import RepoFile, Repository
from inference.finding import Finding, format_count, format_size, join_names
from inference.model.gguf.kept_bits import dequantized_formats
from inference.model.load.architecture import why_no_weights
from inference.model.load.gguf.file.shards import GGUF
from inference.model.load.gguf.tensors.unused_tensors import describe_unused
from inference.model.load.tasks import stored_classes, task_of_stored_class

FORMATS = {
    ".safetensors": "safetensors",
    GGUF: "GGUF",
    ".bin": "pickles, allowed by ALLOW_PICKLE",
}


def check(plan: Plan, machine: Machine) -> Finding:
    repository = plan.repository
    files = repository.weight_files
    if not files:
        return Finding(
            "weights", "safetensors", "none", False, f"the model {why_no_weights(repository.names)}"
        )
    if missing := [file.name for file in repository.files if not is_present(file, repository)]:
        verb = "are" if len(missing) > 1 else "is"
        have = f"{len(repository.files) - len(missing)}"
        return Finding(
            "weights",
            format_count(len(repository.files), "file"),
            have,
            False,
            f"{join_names(missing)} {verb} missing: {missing_files_fix(repository)}",
        )
    need = f"{format_size(repository.weight_bytes)} of {weight_format(files[0].name)}"
    have = format_count(len(files), "file")
    if fault := find_fault(plan):
        return Finding("weights", need, *fault)
    return Finding("weights", need, f"{have}{describe_headers(plan)}", True)


def is_present(file: RepoFile, repository: Repository) -> bool:
    """Whether the model's source has the file: an index may name files that do not exist."""
    return file.is_local if repository.folder else file.name in repository.names


def missing_files_fix(repository: Repository) -> str:
    """How to get missing files."""
    if repository.folder is None:
        return "the repository itself is incomplete, choose another MODEL_REVISION or model"
    if repository.commit:
        return "fetch it again with OFFLINE = False and a connection to the Hub"
    return f"copy the missing files into {repository.folder}"


def weight_format(name: str) -> str:
    return next(name_of_format for ending, name_of_format in FORMATS.items() if name.endswith(ending))


def find_fault(plan: Plan) -> tuple[str, bool, str] | None:
    """The fault that the headers show, as (have, ok=False, fix) of a Finding; None if there is none."""
    headers, model_size = plan.repository.headers, plan.model_size
    if headers and headers.damaged_files:
        why = headers.malformed_reason or "its length differs from its header"
        return (
            f"{join_names(list(headers.damaged_files))}: {why}",
            False,
            refetch_fix(plan.repository, headers.damaged_files[0]),
        )
    if model_size and model_size.missing_weights:
        names = model_size.missing_weights
        have = f"{format_count(len(names), 'missing tensor')}, such as {names[0]}"
        return have, False, missing_tensors_fix(plan.repository)
    if model_size and model_size.unused_weights:
        return (
            describe_unused(model_size.unused_weights),
            False,
            "choose another GGUF_FILE, or a model with safetensors",
        )
    if model_size and model_size.mismatched_weights:
        name, file_shape, model_shape = model_size.mismatched_weights[0]
        shapes = f"{format_shape(file_shape)} instead of {format_shape(model_shape)}"
        count = format_count(len(model_size.mismatched_weights), "tensor")
        have = f"{count} of the wrong shape, such as {name}: {shapes}"
        return have, False, "choose a model whose config.json and weights belong together"
    return None


def missing_tensors_fix(repository: Repository) -> str:
    """What to do about tensors that the files lack: they may be complete, and of a model for another task."""
    if task := task_of_stored_class(repository.config):
        stored_class = next(stored_classes(repository.config))
        return f"the files are weights of {stored_class}, which {task}: choose a model that continues text"
    return "choose a model whose config.json and weights belong together"


def refetch_fix(repository: Repository, name: str) -> str:
    """How to fetch a damaged file again: a file in the cache must be removed first."""
    cached_file = (
        repository.metadata_folder / name if repository.commit and repository.metadata_folder else None
    )
    if cached_file and cached_file.is_file():
        return f"remove {cached_file.resolve()}, and start again; if it is damaged again, tell its authors"
    return f"fetch {repository.name} again, or tell its authors"


def describe_headers(plan: Plan) -> str:
    """A note about weights without a fault.

    Their headers were not read, their dtype is not that of config.json, or a GGUF file has formats without
    native products.
    """
    headers, model_size, gguf_header = plan.repository.headers, plan.model_size, plan.repository.gguf_header
    if gguf_header and model_size and (formats := dequantized_formats(gguf_header)):
        return f"; weights in {formats} are dequantized to {model_size.dtype}"
    config_dtype = plan.repository.config.get("dtype") or plan.repository.config.get("torch_dtype")
    if headers and headers.unavailable_reason:
        return f"; headers not read: {headers.unavailable_reason}"
    if (
        headers
        and model_size
        and model_size.stored_dtype
        and config_dtype
        and model_size.stored_dtype != config_dtype
        and "quantization_config" not in plan.repository.config
    ):
        return f" of {model_size.stored_dtype}, although config.json says {config_dtype}"
    return ""


def format_shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "a scalar"
