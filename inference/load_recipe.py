"""How a model is loaded and its runner selected: the engine's own, and its draft model."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from inference.model import select_runner
from inference.model.gguf.kept_bits import may_keep_bits
from inference.model.kept_formats import KEPT_FORMATS
from inference.model.load import loader
from inference.model.load.device_dtype import limit_gpu
from inference.model.load.formats import FORMATS
from inference.model.load.rope import rope_scaling
from inference.model.lora.runner import AdapterRunner
from inference.model.quantization.schemes import NONE
from inference.model.remembered_reference import remembered_reference
from inference.model.select_runner import SelectedRunner
from inference.model.tensor_parallel.worker import LoadRecipe
from settings.groups import EngineSettings, ModelSettings


def do_nothing() -> None:
    """What a process without a GPU prepares before it loads the model; ranks unpickle it by its name."""


def make_recipe(folder: Path, model_settings: ModelSettings, engine_settings: EngineSettings) -> LoadRecipe:
    """How the model in `folder`, or of the GGUF file at that path, is loaded.

    Each process limits its GPU memory before it loads its shard; kv_memory_bytes is the KV memory of each.
    """
    load_model = partial(
        loader.load,
        folder,
        dtype=model_settings.dtype,
        device=model_settings.device,
        layers=model_settings.layer_devices,
        # A GPU need not have room for the weights before they are quantized.
        weights_device="cpu" if model_settings.quantize != NONE else "",
        trust_remote_code=model_settings.trust_remote_code,
        scaling=rope_scaling(model_settings.rope_scaling, model_settings.rope_factor),
        tokenizer_config=Path(model_settings.tokenizer_config_path)
        if model_settings.tokenizer_config_path
        else None,
        chat_template=model_settings.chat_template,
        allow_pickle=model_settings.allow_pickle,
        formats=KEPT_FORMATS if keeps_bits(model_settings) else FORMATS,
    )
    pick_runner = partial(
        select_adapter_runner,
        max_sequences=engine_settings.max_sequences,
        context=engine_settings.context,
        kv_memory_bytes=engine_settings.kv_memory_bytes,
        max_batch_total_tokens=engine_settings.max_batch_total_tokens,
        max_batch_tokens=engine_settings.max_batch_tokens,
        quantize=model_settings.quantize,
        device=model_settings.device,
        deterministic=engine_settings.deterministic,
        allowed_runners=select_runner.RUNNERS
        if engine_settings.runner == "auto"
        else (engine_settings.runner,),
        timed=model_settings.num_shard == 1,
        make_reference=partial(remembered_reference, folder),
        kv_dtype=engine_settings.kv_dtype,
    )
    prepare = (
        partial(limit_gpu, model_settings.cuda_memory_fraction)
        if model_settings.device == "cuda"
        else do_nothing
    )
    return LoadRecipe(model_settings.num_shard, model_settings.device, prepare, load_model, pick_runner)


def keeps_bits(settings: ModelSettings) -> bool:
    return may_keep_bits(settings.device, settings.quantize, settings.num_shard, settings.layer_devices)


def select_adapter_runner(model: PreTrainedModel, *, deterministic: bool, **options: Any) -> SelectedRunner:
    """As select_runner; the runner also computes steps with adapters."""
    selected = select_runner.select_runner(model, deterministic=deterministic, **options)
    return replace(selected, runner=AdapterRunner(model, selected.runner, deterministic))
