"""Finds what to export, by its folder or the name of a fine-tuned model, and the base model of an adapter."""

import json
from pathlib import Path

from hub.download import fetch
from hub.resolve import make_hub, resolve_model
from inference.errors import BadRequest
from inference.lora.adapter import NAME
from inference.lora.file_names import ADAPTER_CONFIG
from settings.schema import Settings

MODEL_CONFIG = "config.json"
RESULTS = "models"  # folder of the fine-tuned models below TUNING_DIR


def find_model(name: str, tuning_folder: Path | None) -> Path:
    """The folder of an adapter or a whole model. Raises BadRequest if there is none of this name.

    tuning_folder  None: there are no fine-tuned models
    """
    candidates = [Path(name).expanduser()]
    if tuning_folder and NAME.fullmatch(name) and ".." not in name:
        candidates.append(tuning_folder / RESULTS / name.replace(":", "_"))
    for folder in candidates:
        if any((folder / config).is_file() for config in (ADAPTER_CONFIG, MODEL_CONFIG)):
            return folder
    trained = f", or a fine-tuned model in {tuning_folder / RESULTS}" if tuning_folder else ""
    raise BadRequest("NAME", f"must be the folder of an adapter or model{trained}", name)


def find_trained_base(adapter: Path, tuning_folder: Path | None) -> Path | None:
    """The folder of the fully fine-tuned model that a job trained the adapter over; None: there is none."""
    config = json.loads((adapter / ADAPTER_CONFIG).read_bytes())
    base = Path(str(config.get("base_model_name_or_path") or ""))
    is_trained = tuning_folder is not None and base.is_relative_to(tuning_folder)
    return base if is_trained and (base / MODEL_CONFIG).is_file() else None


def find_base(settings: Settings, home: Path) -> Path:
    """The folder of MODEL_NAME, fetched from the Hub if it is not here. Raises Refused."""
    repository = resolve_model(settings, home)
    return fetch(repository, make_hub(settings)) / repository.gguf_file
