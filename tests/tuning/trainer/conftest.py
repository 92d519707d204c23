"""A tiny Llama as a trainer's base, and data for it."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from settings.groups import ModelSettings
from tests.tiny_models import tiny
from tuning.trainer.datum import Datum
from tuning.trainer.model.base_model import BaseModel, load_base
from tuning.types import Hyperparameters, JobSpec, Method

VOCAB = tiny.LLAMA["vocab_size"]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.llama(tmp_path_factory.mktemp("tiny_llama"))


@pytest.fixture(scope="session")
def wide_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama whose layers are wide enough for 8 and 4 bits."""
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4}
    return tiny.llama(tmp_path_factory.mktemp("wide_llama"), **sizes)


@pytest.fixture
def base(model_folder: Path) -> BaseModel:
    return load_base(model_folder, ModelSettings(dtype="float32", device="cpu"))


def make_data(
    lengths: list[int], seed: int = 0, vocab_size: int = VOCAB, **names: Callable[[Random], float]
) -> list[Datum]:
    """Random sequences. names: of inputs, with a function that draws a value."""
    random = Random(seed)
    data = []
    for length in lengths:
        ids = [random.randrange(vocab_size) for _ in range(length + 1)]
        inputs = {name: [draw(random) for _ in range(length)] for name, draw in names.items()}
        data.append(Datum(ids[:-1], ids[1:], inputs))
    return data


def weighted_data(lengths: list[int], seed: int = 0) -> list[Datum]:
    return make_data(lengths, seed, weights=lambda random: float(random.random() < 0.6))


def job_spec(method: Method = "supervised", seed: int = 0, **changes: object) -> JobSpec:
    hyperparameters = {"n_epochs": 3, "batch_size": 2, "learning_rate": 5e-3, "lora_rank": 4} | changes
    return JobSpec(
        job_id="job-1",
        method=method,
        hyperparameters=Hyperparameters(**hyperparameters),  # type: ignore[arg-type]
        seed=seed,
        model_folder="",
        dtype="float32",
        chat_template="",
        tokenizer_config_path="",
        trust_remote_code=False,
        initial_adapter="",
        training_file="",
        validation_file="",
        threads=1,
    )
