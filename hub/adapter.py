"""Recognizes an adapter that is given as the model: it has a few weights that change those of a base model.

Knows the file names of peft.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from hub.small_files import INDEX, read_json
from hub.weight_files import PICKLE_PATTERN, SINGLE_FILE
from inference.finding import Finding, Refused
from inference.lora.file_names import ADAPTER_CONFIG
from inference.model.load.gguf.file.shards import GGUF

SERVED_KIND = "LORA"
BASE = "its base model"
HOW_TO_MERGE = (
    "(merge_and_unload() of the package peft, then save_pretrained), and set MODEL_NAME to the merged folder"
)


def refuse_adapter(folder: Path, name: str, names: Collection[str]) -> None:
    """Raise Refused if the files `names` are those of an adapter alone. `folder` has the small ones."""
    if ADAPTER_CONFIG not in names or any(map(has_model_weights, names)):
        return
    config = read_json(folder / ADAPTER_CONFIG, name) if (folder / ADAPTER_CONFIG).is_file() else {}
    base, kind = config.get("base_model_name_or_path"), config.get("peft_type")
    base_name = base if isinstance(base, str) and base else ""
    label = f"an adapter ({kind})" if isinstance(kind, str) else "an adapter"
    have = f"{label} of {base_name or BASE}, without the model itself"
    raise Refused(Finding("weights", "a model", have, False, explain_fix(name, base_name, kind)))


def explain_fix(name: str, base_name: str, kind: Any) -> str:
    """How to serve an adapter of this kind with its base model."""
    if kind == SERVED_KIND:
        model = f'MODEL_NAME = "{base_name}"' if base_name else f"set MODEL_NAME to {BASE}"
        return f'{model}, and LORA_ADAPTERS = "{name}" beside it'
    serve_base = (
        f'MODEL_NAME = "{base_name}" serves the base model; to serve the adapter, ' if base_name else ""
    )
    return f"{serve_base}merge it into {'that model' if base_name else BASE} {HOW_TO_MERGE}"


def has_model_weights(name: str) -> bool:
    """Whether a file of this name has the weights of a whole model, or says where they are."""
    return name in (SINGLE_FILE, INDEX) or name.endswith(GGUF) or bool(PICKLE_PATTERN.fullmatch(name))
