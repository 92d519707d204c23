"""Loads the model and tokenizer of a folder, and the few facts that the server needs about them.

Knows transformers' auto classes; not where the folder came from, nor which runner will compute the model.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError

from inference.errors import BadRequest, error_line
from inference.model import process_group
from inference.model.load.architecture import (
    auto_class_of,
    requires_remote_code,
    why_no_weights,
    why_unsupported,
)
from inference.model.load.checkpoint_quantization import set_quantization
from inference.model.load.device_dtype import default_context
from inference.model.load.formats import FORMATS, WeightsFormat, is_gguf, read_config, read_tokenizer
from inference.model.load.generation_config import gguf_stop_token_ids, stop_token_ids_of, vocab_size_of
from inference.model.load.rope import rope_scaling
from inference.model.load.tokenizer import read_chat_template, replace_settings
from inference.model.placement.device_map import build_device_map, without_accelerate_dispatch
from inference.model.placement.hooks import install_placement_hooks
from inference.process.imports.deferred_torch import with_meta_kernels
from inference.process.memory.malloc import mmap_large_blocks
from inference.process.memory.mmap_release import release_unused
from settings.groups import ModelSettings

log = logging.getLogger(__name__)

LOG_SIZE_BYTES = 1_000_000_000  # bytes of weights above which the start of loading is logged
# What transformers raises for a file with unexpected content.
LOAD_ERRORS = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ImportError,
    RuntimeError,  # including RecursionError
    SafetensorError,
)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to run.

    model               in eval mode, in `dtype`, on `device` except for layers on other devices
    is_encoder_decoder  the encoder reads the prompt
    context             the most tokens of a sequence, prompt and completion together
    vocab               width of the logits
    stop_token_ids      tokens that end a completion
    """

    model: Any
    tokenizer: Any
    is_encoder_decoder: bool
    context: int
    vocab: int
    stop_token_ids: frozenset[int]
    dtype: str
    device: str


def load(folder: Path, settings: ModelSettings, formats: Sequence[WeightsFormat] = FORMATS) -> LoadedModel:
    """Load the model in `folder`, or in a GGUF file: of several shards, the first. Raises BadRequest.

    The weights stay as they are stored, whatever scheme the settings name: see prepare_weights.py.

    formats  how weights are loaded: the first that matches
    """
    transformers.utils.logging.disable_progress_bar()
    config = config_of(folder, settings.trust_remote_code)
    scaling = rope_scaling(settings.rope_scaling, settings.rope_factor)
    scaling.apply(config)
    set_quantization(config, settings.layer_devices or (settings.device,))
    with as_bad_request(folder, "has no tokenizer that can be read"):
        tokenizer = read_tokenizer(folder, settings.trust_remote_code)
    if settings.tokenizer_config_path:
        replace_settings(tokenizer, Path(settings.tokenizer_config_path))
    if settings.chat_template:
        tokenizer.chat_template = read_chat_template(settings.chat_template)
    model = model_of(folder, config, settings, formats)
    vocab = vocab_size_of(model)
    named_stops = gguf_stop_token_ids(tokenizer) if is_gguf(folder) else frozenset()
    stops = stop_token_ids_of(model, tokenizer) | named_stops
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        is_encoder_decoder=bool(getattr(config, "is_encoder_decoder", False)),
        context=scaling.scale_length(default_context(config)),
        vocab=vocab,
        stop_token_ids=frozenset(id for id in stops if 0 <= id < vocab),  # files may name others
        dtype=settings.dtype,
        device=settings.device,
    )


def config_of(folder: Path, trust_remote_code: bool) -> Any:
    """The model's config. Raises BadRequest if it is unreadable, or the architecture is unsupported."""
    if not (folder if is_gguf(folder) else folder / "config.json").exists():
        raise BadRequest("MODEL_NAME", "must be a folder with a config.json", str(folder))
    with as_bad_request(folder, "has a config that cannot be read"):
        if not is_gguf(folder):
            raw, _ = transformers.PreTrainedConfig.get_config_dict(folder)
            check_servable(raw, trust_remote_code)
        config = read_config(folder, trust_remote_code)
    choose_attention(config)
    choose_outputs(config)
    return config


def choose_attention(config: Any) -> None:
    """Let eager attention compute scores with a soft cap, which transformers' sdpa leaves out.

    transformers chooses sdpa for every architecture that supports it, Gemma 2 among them in 5.17.
    """
    if getattr(config.get_text_config(decoder=True), "attn_logit_softcapping", None):
        config._attn_implementation = "eager"


def choose_outputs(config: Any) -> None:
    """Let the model return named outputs, the logits alone: some files set otherwise for their own use."""
    for each in {id(each): each for each in (config, config.get_text_config(decoder=True))}.values():
        each.return_dict, each.output_hidden_states, each.output_attentions = True, False, False


def check_servable(raw: Mapping[str, Any], trust_remote_code: bool) -> None:
    """Raise BadRequest if the model of a config.json is unsupported or needs untrusted code."""
    if why := why_unsupported(raw):
        raise BadRequest("MODEL_NAME", why)
    if requires_remote_code(raw) and not trust_remote_code:
        raise BadRequest("MODEL_NAME", "needs its own Python code: set TRUST_REMOTE_CODE = True to run it")


def model_of(
    folder: Path, config: Any, settings: ModelSettings, formats: Sequence[WeightsFormat] = FORMATS
) -> Any:
    """Load the model, in eval mode. A missing weight raises BadRequest: it is not initialized randomly."""
    weights_format = next(
        (weights_format for weights_format in formats if weights_format.matches(folder)), None
    )
    if weights_format is None or (weights_format.can_run_code and not settings.allow_pickle):
        raise BadRequest("MODEL_NAME", why_no_weights(path.name for path in folder.iterdir()), str(folder))
    log_loading(weights_format, folder, settings)
    auto_class = auto_class_of(config)
    placement = process_group.tensor_parallel_kwargs() or placement_kwargs(auto_class, config, settings)
    with (
        as_bad_request(folder, "has weights that cannot be loaded"),
        without_accelerate_dispatch(),
        mmap_large_blocks(),
    ):
        open_weights = partial(
            weights_format.open,
            auto_class,
            folder,
            config=config,
            dtype=getattr(torch, settings.dtype),
            trust_remote_code=settings.trust_remote_code,
            **placement,
        )
        model, missing = with_meta_kernels(open_weights)
    if missing:
        raise BadRequest(
            "MODEL_NAME", f"lacks {len(missing)} of its weights, such as {min(missing)}", str(folder)
        )
    if len(set(settings.layer_devices)) > 1:
        install_placement_hooks(model)
    release_unused(model)
    return model.eval().requires_grad_(False)


def placement_kwargs(auto_class: Any, config: Any, settings: ModelSettings) -> dict[str, Any]:
    """The device_map of from_pretrained; None: the CPU."""
    layers = settings.layer_devices
    if layers:
        return {"device_map": build_device_map(auto_class, config, layers, settings.trust_remote_code)}
    return {"device_map": None if settings.weights_device == "cpu" else settings.weights_device}


def log_loading(weights_format: WeightsFormat, folder: Path, settings: ModelSettings) -> None:
    size = sum(path.stat().st_size for path in weights_format.files(folder) if path.is_file())
    if size > LOG_SIZE_BYTES:
        log.info("loading size=%.1fGB dtype=%s device=%s", size / 1e9, settings.dtype, settings.device)


@contextmanager
def as_bad_request(folder: Path, rule: str) -> Iterator[None]:
    """Convert what transformers raises about a folder's content to a BadRequest that begins with `rule`."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, LOAD_ERRORS) and type(error) is not Exception:  # as tokenizers raises
            raise
        raise BadRequest("MODEL_NAME", f"{rule}: {folder}: {error_line(error, 400)}") from error
