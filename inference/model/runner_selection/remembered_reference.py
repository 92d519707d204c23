"""Remembers the reference logits of models on disk: a later load verifies its runners with them at once.

The plain forward passes that they come from take about half of a small model's load. The same files give the
same logits as long as the libraries, the processor and the model's settings are the same: a hash of all of
them names the file. Knows the Reference.

Which runner was the fastest is remembered too, and with mapped weights the errors of runners: for the same
threads and code of this project.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
import transformers
from transformers import PreTrainedModel

from inference.model.quantization.replace import packed_weights, rounds_activations
from inference.model.reference import ROWS, Reference
from inference.model.remembered_trials import RememberedChoices, RememberedErrors
from inference.model.weights.mapped_model import mapped_file
from inference.native.cpu_levels import processor_features, processor_name
from inference.native.library import available, library_id
from inference.native.weight_cache.file import WeightFile
from inference.process.cache_folder import cache_folder, keep_newest, read_with_digest, write_with_digest

FOLDER = "reference_logits"
ERRORS_FOLDER, CHOICES_FOLDER = "runner_errors", "fastest_runners"
ROOT = Path(__file__).parents[3]
COMPUTING_CODE = ("inference/model", "inference/native")
MAX_FILES = 8  # models that are remembered; with a vocabulary of 152,000 tokens and bfloat16, 20 MB each
NOISE_KEY = "rounding_noise"


def remembered_reference(source: Path, model: PreTrainedModel) -> Reference:
    """The Reference of a model as it was loaded from a folder or a GGUF file.

    Computed and remembered if this is the first load. A model with weights on a GPU is not remembered.
    """
    if any(weight.device.type != "cpu" for weight in model.parameters()):
        return Reference(model)
    file = mapped_file(model)
    with contextlib.suppress(OSError, RuntimeError):
        reference = find_reference(source, model, file)
        reference.choices = RememberedChoices(choices_path(source, model))
        if file:
            reference.errors = RememberedErrors(errors_path(source, model, file))
        return reference
    return Reference(model)


def find_reference(source: Path, model: PreTrainedModel, file: WeightFile | None) -> Reference:
    """The Reference of an earlier load, or a new one that is remembered. file: of mapped weights.

    That of weights which were packed just now is not remembered: which of them are used beyond products shows
    in the forward pass. Weights that an earlier load has packed without a change of their values are compared
    with the logits from before; other mapped weights with those of the first load that mapped them.
    """
    if packed_weights(model) and file is None:
        return Reference(model)
    has_same_values = file and not file.about["quant_error"] and not rounds_activations(model)
    if has_same_values and (reference := read_reference(reference_path(source, model), model)):
        return reference
    path = reference_path(source, model, file)
    reference = read_reference(path, model)
    if reference is None:
        reference = Reference(model)
        write_reference(path, reference)
    return reference


def reference_path(source: Path, model: PreTrainedModel, file: WeightFile | None = None) -> Path:
    """Where a model's Reference is remembered. Raises OSError, and RuntimeError without a home folder.

    file: of mapped weights, whose products give the logits
    """
    packing = describe_packing(file) if file else ()
    return cache_folder() / FOLDER / f"{fingerprint(source, model, packing)}"


def errors_path(source: Path, model: PreTrainedModel, file: WeightFile) -> Path:
    """Where the errors of a model's runners are remembered. Raises as reference_path."""
    inputs = (*describe_packing(file), *describe_computing())
    return cache_folder() / ERRORS_FOLDER / f"{fingerprint(source, model, inputs)}"


def choices_path(source: Path, model: PreTrainedModel) -> Path:
    """Where a model's fastest runners are remembered. Raises as reference_path."""
    inputs = (processor_name(), library_id() if available() else "no library", *describe_computing())
    return cache_folder() / CHOICES_FOLDER / f"{fingerprint(source, model, inputs)}"


def describe_computing() -> list[str]:
    """The threads that compute, and this project's code in Python: a changed file has another time."""
    code = [str(state) for folder in COMPUTING_CODE for state in file_states(ROOT / folder, "*.py")]
    return [str(torch.get_num_threads()), *code]


def describe_packing(file: WeightFile) -> tuple[str, str]:
    return library_id(), json.dumps(file.about, sort_keys=True)


def read_reference(path: Path, model: PreTrainedModel) -> Reference | None:
    """The Reference of an earlier load; None if there is none that can be read."""
    try:
        tensors = safetensors.torch.load(read_with_digest(path))
        logits, noise = [tensors[str(row)] for row in range(ROWS)], tensors[NOISE_KEY].item()
        path.touch()  # it is used: keep_newest deletes others first
    except (OSError, ValueError, KeyError, safetensors.SafetensorError):
        return None
    return Reference(model, logits, noise)


def write_reference(path: Path, reference: Reference) -> None:
    """Remember a reference; one whose logits are not numbers is computed again."""
    if reference.std != reference.std:
        return
    tensors = {str(row): logits.contiguous() for row, logits in enumerate(reference.logits)}
    tensors[NOISE_KEY] = torch.tensor(reference.rounding_noise, dtype=torch.float64)
    with contextlib.suppress(OSError):
        write_with_digest(path, safetensors.torch.save(tensors))
        keep_newest(path.parent, MAX_FILES)


def fingerprint(source: Path, model: PreTrainedModel, more: Sequence[str] = ()) -> str:
    """A hash of all that the logits follow from. more: what else there is. Raises OSError."""
    config = model.config.to_dict()
    config.pop("_name_or_path", None)  # mapped weights have no folder
    inputs: list[Any] = [
        *more,
        torch.__version__,
        transformers.__version__,
        sorted(processor_features()),
        type(model).__module__,
        type(model).__qualname__,
        str(model.dtype),
        str(model.config._attn_implementation),
        json.dumps(config, sort_keys=True, default=str),
        *file_states(source if source.is_dir() else source.parent),
    ]
    digest = hashlib.sha256("\0".join(map(str, inputs)).encode())
    for name, buffer in model.named_buffers():  # rotary frequencies, fixed for a context
        digest.update(name.encode() + buffer.detach().float().numpy().tobytes())
    return digest.hexdigest()[:32]


def file_states(folder: Path, pattern: str = "*") -> Iterator[tuple[str, int, int]]:
    """Path, size and time of change of each file in a folder, such as the weights and code of a model."""
    for path in sorted(folder.rglob(pattern)):
        if path.is_file():
            status = path.stat()
            yield str(path.resolve()), status.st_size, status.st_mtime_ns
