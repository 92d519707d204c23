"""Opens the engine of the model that this process serves, as the memory plan says."""

import sys
from dataclasses import replace
from pathlib import Path

from checks.machine import Machine
from checks.memory.plan import Plan
from checks.report import print_findings
from checks.resources import enough_memory
from hub.download import fetch
from hub.download.progress import Progress
from hub.resolve import make_hub
from inference.backend import Backend
from inference.errors import ServerError
from inference.factory import LoadedEngine, open_backend, open_engine
from inference.finding import Refused
from inference.metrics import Metrics
from inference.open_draft_model import DraftSource
from settings.groups import EngineSettings, ModelSettings, backend_settings, group
from settings.schema import Settings


def load_or_explain(settings: Settings, plan: Plan, machine: Machine) -> LoadedEngine | None:
    """Fetch and open the model. Prints the reason and returns None if that is refused."""
    try:
        return load(settings, plan, machine)
    except Refused as error:
        print_findings([error.finding], settings)
    except ServerError as error:
        print(f"hearth: {error.message}", file=sys.stderr)
    return None


def load(settings: Settings, plan: Plan, machine: Machine) -> LoadedEngine:
    """Fetch what is missing and open the model as planned. Raises Refused or ServerError."""
    budget = enough_memory.plan_budget(plan, machine)
    model = model_settings(settings, plan)
    engine = group(
        EngineSettings,
        settings,
        context=budget.context,
        kv_memory_bytes=budget.kv_memory_bytes,
        max_batch_total_tokens=settings.max_batch_total_tokens or None,
        speculate=settings.max_drafts,
    )
    folder = fetch_model(settings, plan)
    return open_engine(folder, model, engine, draft_source(settings, plan.draft_plan))


def model_settings(settings: Settings, plan: Plan) -> ModelSettings:
    assert plan.model_size is not None
    return group(
        ModelSettings,
        settings,
        device=plan.device,
        dtype=plan.model_size.dtype,
        layer_devices=plan.layer_devices,
        quantize=plan.quantize,
        num_shard=plan.num_shard,
    )


def draft_source(settings: Settings, draft: Plan | None) -> DraftSource | None:
    """Fetch the draft model and say how it is loaded; None if there is none. Raises Refused."""
    if draft is None:
        return None
    engine = group(
        EngineSettings,
        settings,
        context=draft.context,
        max_sequences=draft.max_sequences,
        kv_memory_bytes=draft.kv_memory_bytes,
        max_batch_total_tokens=None,
    )
    model = replace(
        model_settings(settings, draft),
        imatrix="",
        rope_scaling="none",
        rope_factor=1.0,
        tokenizer_config_path="",
        chat_template="",
    )
    return DraftSource(fetch_model(settings, draft), model, engine)


def fetch_model(settings: Settings, plan: Plan) -> Path:
    """Fetch the missing files. Returns the model's folder, or the path of its GGUF file. Raises Refused."""
    repository = plan.repository
    progress = Progress(as_json=settings.json_output)
    return fetch(repository, make_hub(settings), progress) / repository.gguf_file


def make_backend(settings: Settings, loaded_engine: LoadedEngine, metrics: Metrics) -> Backend:
    """Start the engine and return the backend that the API serves."""
    model_id = public_name(settings.model_name)
    return open_backend(loaded_engine, backend_settings(settings), model_id=model_id, metrics=metrics)


def public_name(model: str) -> str:
    """The model's name for clients: its name on the Hub, or the last segment of a folder's path."""
    return Path(model).expanduser().resolve().name if model.startswith(("/", ".", "~")) else model
