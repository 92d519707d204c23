"""Loads the draft model beside the model that it drafts for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.engine.sampling.sampler import Sampler
from inference.engine.speculation.draft_model import DraftModel
from inference.errors import ServerError, Unavailable
from inference.model.load.loader import LoadedModel
from inference.model.load_recipe import make_recipe
from inference.model.runner_selection.select_runner import SelectedRunner
from inference.model.tensor_parallel.executor import SingleProcess
from settings.groups import EngineSettings, ModelSettings

MAX_DIFFERENT_SHARE = 0.02  # of the draft model's tokens: special tokens of fine-tuned models differ


@dataclass(frozen=True, slots=True)
class DraftSource:
    """Where the draft model is, and how it is loaded and run."""

    folder: Path
    model_settings: ModelSettings
    engine_settings: EngineSettings


def open_draft_model(source: DraftSource, large: LoadedModel, sampler: Sampler) -> DraftModel:
    """Load the draft model of `large`, on the thread that computes both. sampler: that of `large`.

    Raises ServerError if it cannot be loaded, has another vocabulary, or cannot take tokens back.
    """
    loaded_model, selected_runner = load(source)
    check_same_tokens(loaded_model.tokenizer, large.tokenizer)
    capabilities = selected_runner.runner.capabilities
    if capabilities.encoder_decoder or not capabilities.chunked_prefill:
        kind = loaded_model.model.config.model_type
        raise Unavailable(f"DRAFT_MODEL: {kind} cannot take wrong drafts back: choose a causal transformer")
    return DraftModel(selected_runner.runner, sampler)


def load(source: DraftSource) -> tuple[LoadedModel, SelectedRunner]:
    """Load the model with its runner. Raises Unavailable, which names the setting of this model."""
    recipe = make_recipe(source.folder, source.model_settings, source.engine_settings)
    try:
        return SingleProcess(recipe).start()
    except ServerError as error:
        raise Unavailable(f"DRAFT_MODEL: {error.message.removeprefix('MODEL_NAME ')}") from error


def check_same_tokens(draft_tokenizer: Any, tokenizer: Any) -> None:
    """Raise Unavailable unless nearly all ids mean the same tokens. Wrong ones cost time, and no answer."""
    draft_ids, ids = draft_tokenizer.get_vocab(), tokenizer.get_vocab()
    num_different = sum(ids.get(token) != id for token, id in draft_ids.items())
    if num_different > MAX_DIFFERENT_SHARE * len(draft_ids):
        raise Unavailable(
            f"DRAFT_MODEL: {num_different} of its {len(draft_ids)} tokens have another id in the model: "
            "choose a model of the same family, with the same tokenizer"
        )
