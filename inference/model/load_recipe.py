"""How a model is loaded and its runner selected: the engine's own, and its draft model."""

import atexit
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from inference.model.gguf.kept_bits import may_keep_bits
from inference.model.load import loader
from inference.model.load.device_dtype import limit_gpu
from inference.model.load.formats import FORMATS, WeightsFormat
from inference.model.lora.runner import AdapterRunner
from inference.model.quantization.schemes import Quantization
from inference.model.runner_selection.remembered_reference import remembered_reference
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules, kinds_of
from inference.model.runner_selection.select_runner import SelectedRunner, select_runner
from inference.model.tensor_parallel.recipe import LoadRecipe
from inference.model.weights.kept_formats import KEPT_FORMATS
from inference.model.weights.prepare_weights import MakeReference
from inference.model.weights.weight_cache import WeightCache, allows_cache, open_weight_cache, plain_tensors
from inference.native.build import NativeUnavailable
from inference.native.weight_cache.source_files import weight_cache_folder
from inference.process.file_lease import lease_mapped
from settings.groups import EngineSettings, ModelSettings

WRITE_S = 10.0  # that a process which ends gives its packed weights to reach the disk


def do_nothing() -> None:
    """What a process without a GPU prepares before it loads the model; ranks unpickle it by its name."""


def make_recipe(folder: Path, model_settings: ModelSettings, engine_settings: EngineSettings) -> LoadRecipe:
    """How the model in `folder`, or of the GGUF file at that path, is loaded.

    Each process limits its GPU memory before it loads its shard; kv_memory_bytes is the KV memory of each.
    """
    formats = formats_of(model_settings)
    weight_cache = find_weight_cache(folder, model_settings, formats)
    load_model = partial(
        loader.load,
        folder,
        model_settings,
        formats=formats if weight_cache is None else (weight_cache.format, *formats),
    )
    pick_runner = partial(
        select_adapter_runner,
        limits=RunnerLimits(
            max_sequences=engine_settings.max_sequences,
            context=engine_settings.context,
            kv_memory_bytes=engine_settings.kv_memory_bytes,
            max_batch_total_tokens=engine_settings.max_batch_total_tokens,
            max_batch_tokens=engine_settings.max_batch_tokens,
        ),
        rules=RunnerRules(
            kinds=kinds_of(engine_settings.runner),
            deterministic=engine_settings.deterministic,
            kv_dtype=engine_settings.kv_dtype,
            timed=model_settings.num_shard == 1,
        ),
        quantization=Quantization(
            model_settings.quantize,
            model_settings.device,
            imatrix=Path(model_settings.imatrix) if model_settings.imatrix else None,
        ),
        make_reference=partial(remembered_reference, folder),
    )
    prepare = (
        partial(limit_gpu, model_settings.cuda_memory_fraction)
        if model_settings.device == "cuda"
        else do_nothing
    )
    if weight_cache is not None:
        pick_runner = partial(select_and_keep, weight_cache, pick_runner)
    return LoadRecipe(model_settings.num_shard, model_settings.device, prepare, load_model, pick_runner)


def find_weight_cache(
    folder: Path, settings: ModelSettings, formats: Sequence[WeightsFormat]
) -> WeightCache | None:
    """The cache of the model's packed weights; None if it is off, or the settings allow no packed weights."""
    cache_folder = weight_cache_folder(settings.weight_cache_dir)
    is_allowed = allows_cache(
        settings.device,
        settings.num_shard,
        settings.layer_devices,
        trust_remote_code=settings.trust_remote_code,
    )
    if cache_folder is None or not is_allowed:
        return None
    scheme = settings.quantize, settings.imatrix
    return open_weight_cache(cache_folder, folder, settings.dtype, *scheme, formats)


def select_and_keep(
    weight_cache: WeightCache, select: Callable[[Any], SelectedRunner], model: PreTrainedModel
) -> SelectedRunner:
    """As `select`; keeps the packed weights for the next start: the end of this process waits for them."""
    selected = select(model)
    if writer := weight_cache.keep(model, selected.quant_error):
        atexit.register(writer.join, WRITE_S)
    return selected


def formats_of(settings: ModelSettings) -> Sequence[WeightsFormat]:
    """How weights are loaded without a file of the cache."""
    options = settings.device, settings.quantize, settings.num_shard, settings.layer_devices
    return KEPT_FORMATS if may_keep_bits(*options) else FORMATS


def find_weight_file(folder: Path, settings: ModelSettings) -> Path | None:
    """Where the packed weights of the model are kept, which may be nowhere yet; None: they are not kept."""
    weight_cache = find_weight_cache(folder, settings, formats_of(settings))
    with contextlib.suppress(NativeUnavailable):
        return None if weight_cache is None else weight_cache.path
    return None


def select_adapter_runner(
    model: PreTrainedModel,
    limits: RunnerLimits,
    rules: RunnerRules,
    quantization: Quantization,
    make_reference: MakeReference,
) -> SelectedRunner:
    """As select_runner; the runner also computes steps with adapters. Mapped weights are then protected."""
    selected = select_runner(model, limits, rules, quantization, make_reference)
    lease_mapped(plain_tensors(model).values())
    return replace(selected, runner=AdapterRunner(model, selected.runner, rules.deterministic))
