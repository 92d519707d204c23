"""A model folder becomes a model, its tokenizer, and the few facts the server needs about them.

Knows transformers' auto classes. Does not know where the folder came from, nor how the model will be run.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError

from inference.errors import BadRequest, said
from inference.heap import returning
from inference.model import group
from inference.model.architecture import family_of, needs_code, no_weights, unserved
from inference.model.facts import ends_of, start_ids_of, vocab_of
from inference.model.formats import FORMATS, is_gguf, read_config, read_tokenizer
from inference.model.gguf.parts import paths
from inference.model.place import context_of
from inference.model.prequantised import prepare
from inference.model.scaling import PLAIN, Scaling
from inference.model.split.carry import carry
from inference.model.split.placing import mapped, undispatched
from inference.model.tokenizer import replace_settings
from inference.model.weights.mapped import forget_unused

log = logging.getLogger(__name__)

LARGE = 1_000_000_000  # bytes of weights above which loading is announced
# What transformers raises where a file holds something else than it expects.
WRONG = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ImportError,
    RuntimeError,  # RecursionError, too
    SafetensorError,
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model ready to run.

    model      in eval mode, in `dtype`, on `device` but for layers that are elsewhere
    encodes    it is an encoder-decoder model, whose answers begin with `start_ids`
    context    tokens it takes, prompt and answer together
    vocab      width of its logits
    ends       token ids that end an answer
    """

    model: Any
    tokenizer: Any
    encodes: bool
    context: int
    vocab: int
    ends: frozenset[int]
    start_ids: tuple[int, ...]
    dtype: str
    device: str


def load(
    folder: Path,
    *,
    dtype: str,
    device: str,
    trust_remote_code: bool,
    layers: Sequence[str] = (),
    scaling: Scaling = PLAIN,
    tokenizer_config: Path | None = None,
    allow_pickle: bool = False,
) -> Loaded:
    """Load the model in `folder`, or the GGUF file of that path, of several the first. Raises BadRequest.

    dtype             float32, bfloat16 or float16
    layers            the device of each layer, where they are not all on `device`
    tokenizer_config  a file whose chat template and special tokens replace the model's
    allow_pickle      whether weights may be read that are pickles, which can run code
    """
    transformers.utils.logging.disable_progress_bar()
    config = config_of(folder, trust_remote_code)
    scaling.stretch(config)
    prepare(config, layers or (device,))
    encodes = bool(getattr(config, "is_encoder_decoder", False))
    tokenizer = tokenizer_of(folder, trust_remote_code)
    if tokenizer_config:
        replace_settings(tokenizer, tokenizer_config)
    model = model_of(folder, config, dtype, device, trust_remote_code, layers, allow_pickle)
    return Loaded(
        model=model,
        tokenizer=tokenizer,
        encodes=encodes,
        context=scaling.length(context_of(config)),
        vocab=vocab_of(model),
        ends=ends_of(model, tokenizer),
        start_ids=start_ids_of(model) if encodes else (),
        dtype=dtype,
        device=device,
    )


def config_of(folder: Path, trust_remote_code: bool) -> Any:
    """The model's config, of an architecture that can be served. Raises BadRequest."""
    if not (folder if is_gguf(folder) else folder / "config.json").exists():
        raise BadRequest("MODEL_NAME", "must be a folder with a config.json", str(folder))
    with refusing(folder, "has a config that cannot be read"):
        if not is_gguf(folder):
            raw, _ = transformers.PreTrainedConfig.get_config_dict(folder)
            check(raw, trust_remote_code)
        return read_config(folder, trust_remote_code)


def check(raw: Mapping[str, Any], trust_remote_code: bool) -> None:
    """Raise BadRequest where the model of a config.json cannot be served, or must not."""
    if why := unserved(raw):
        raise BadRequest("MODEL_NAME", why)
    if needs_code(raw) and not trust_remote_code:
        raise BadRequest("MODEL_NAME", "brings its own Python code; TRUST_REMOTE_CODE = True runs it")


def tokenizer_of(folder: Path, trust_remote_code: bool) -> Any:
    with refusing(folder, "has no tokenizer that can be read"):
        return read_tokenizer(folder, trust_remote_code)


def model_of(
    folder: Path,
    config: Any,
    dtype: str,
    device: str,
    trust_remote_code: bool,
    layers: Sequence[str] = (),
    allow_pickle: bool = False,
) -> Any:
    """The model in eval mode on its device. A weight that is missing is an error, never a random number."""
    form = next((form for form in FORMATS if form.matches(folder)), None)
    if form is None or (form.runs and not allow_pickle):
        raise BadRequest("MODEL_NAME", no_weights(path.name for path in folder.iterdir()), str(folder))
    announce(folder, dtype, device)
    family = family_of(config)
    place = (
        mapped(family, config, layers, trust_remote_code) if layers else None if device == "cpu" else device
    )
    with refusing(folder, "has weights that cannot be loaded"), undispatched(), returning():
        model, missing = form.open(
            family,
            folder,
            config=config,
            dtype=getattr(torch, dtype),
            trust_remote_code=trust_remote_code,
            **(group.part() or {"device_map": place}),
        )
    if missing:
        raise BadRequest(
            "MODEL_NAME", f"lacks {len(missing)} of its weights, such as {min(missing)}", str(folder)
        )
    if len(set(layers)) > 1:
        carry(model)
    forget_unused(model)
    return model.eval().requires_grad_(False)


def announce(folder: Path, dtype: str, device: str) -> None:
    files = paths(folder) if is_gguf(folder) else [*folder.glob("*.safetensors"), *folder.glob("*.bin")]
    size = sum(path.stat().st_size for path in files)
    if size > LARGE:
        log.info("loading size=%.1fGB dtype=%s device=%s", size / 1e9, dtype, device)


@contextmanager
def refusing(folder: Path, rule: str) -> Iterator[None]:
    """What transformers raises about the content of a folder becomes a BadRequest."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, WRONG) and type(error) is not Exception:  # which tokenizers raises
            raise
        raise BadRequest("MODEL_NAME", f"{rule}: {folder}: {said(error, 400)}") from error
