"""The forms that a model's weights come in, and how each is opened. To add one, add a row to FORMATS.

Knows transformers' loader and files' names. A model is a folder, or a GGUF file with what lies beside it; of
several the first.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transformers
from transformers import AutoConfig

from inference.model.gguf.joined import joined
from inference.model.gguf.parts import GGUF
from inference.model.tokenizer import open_tokenizer

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json")


@dataclass(frozen=True, slots=True)
class Format:
    """`open(family, source, **options)` gives the model and what it lacks.

    runs  reading it may run code that it holds
    """

    matches: Callable[[Path], bool]
    open: Callable[..., tuple[Any, set[str]]]
    runs: bool = False


def is_gguf(source: Path) -> bool:
    return source.suffix == GGUF


def home(source: Path) -> Path:
    """The folder of a model."""
    return source.parent if is_gguf(source) else source


def within(source: Path) -> Mapping[str, str]:
    """What tells transformers of the file that a model is."""
    return {"gguf_file": source.name} if is_gguf(source) else {}


def read_config(source: Path, trust_remote_code: bool) -> Any:
    with joined(source):
        return AutoConfig.from_pretrained(home(source), trust_remote_code=trust_remote_code, **within(source))


def read_tokenizer(source: Path, trust_remote_code: bool) -> Any:
    """The one that lies beside a GGUF file, if there is one: it says more, and is read faster."""
    if not is_gguf(source) or any((source.parent / name).is_file() for name in TOKENIZERS):
        return open_tokenizer(home(source), trust_remote_code)
    with joined(source):
        return open_tokenizer(home(source), trust_remote_code, **within(source))


def open_safetensors(family: Any, source: Path, **options: Any) -> tuple[Any, set[str]]:
    # No attn_implementation: transformers takes sdpa where the architecture has it, else eager.
    return opened(family, source, use_safetensors=True, **options)


def open_pickles(family: Any, source: Path, **options: Any) -> tuple[Any, set[str]]:
    """Of a pickle, only what makes tensors is run."""
    return opened(family, source, use_safetensors=False, weights_only=True, **options)


def open_gguf(family: Any, source: Path, **options: Any) -> tuple[Any, set[str]]:
    """As plain weights, in the dtype asked for: kernels for packed ones are other seats' than ours."""
    kind = getattr(transformers, "GgufConfig", None)  # not in every release
    plain = {"quantization_config": kind(dequantize=True)} if kind else {}
    with joined(source):
        return opened(family, home(source), **within(source), **plain, **options)


def opened(family: Any, source: Path, **options: Any) -> tuple[Any, set[str]]:
    model, report = family.from_pretrained(source, output_loading_info=True, **options)
    return model, set(report["missing_keys"])


# The first that matches is opened.
FORMATS = (
    Format(is_gguf, open_gguf),
    Format(lambda source: any(source.glob("*.safetensors")), open_safetensors),
    Format(lambda source: any(source.glob("pytorch_model*.bin")), open_pickles, runs=True),
)
