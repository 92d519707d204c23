"""An adapter of every layer, output layer included, is served as it was trained."""

from pathlib import Path

import pytest
import torch

from inference.model.lora.verify import trial_batch
from settings.groups import ModelSettings
from tests.lora.adapted_engine import AdaptedEngine
from tests.tiny_models import tiny
from tests.tiny_models.families import needs_fused
from tests.tuning.trainer.conftest import make_data
from tests.tuning.trainer.warm_runs import warm
from tuning.trainer.model.base_model import load_base
from tuning.trainer.trainer import Trainer


@needs_fused
@pytest.mark.parametrize("kind", ["fused", "paged"])
@pytest.mark.parametrize("tied", [False, True], ids=["own output layer", "tied output layer"])
def test_the_server_computes_the_logprobs_of_the_trainer(tmp_path: Path, tied: bool, kind: str) -> None:
    model_folder = tiny.llama(tmp_path / "model", tie_word_embeddings=tied)
    trainer = warm(
        Trainer(load_base(model_folder, ModelSettings(dtype="float32", device="cpu"))), train_output=True
    )
    (datum,) = make_data([8])
    expected = trainer.forward("a", [datum], "cross_entropy").logprobs[0]
    folder = tmp_path / "adapter"
    folder.mkdir()
    trainer.save("a", folder, with_optimizer=False)
    served = AdaptedEngine(
        load_base(model_folder, ModelSettings(dtype="float32", device="cpu")).causal, (kind,)
    )
    served.load(folder, 1)
    batch = trial_batch(served.runner.runner, datum.token_ids)
    base = served.runner.forward(batch).log_softmax(-1).clone()
    batch.adapter_ids.append(1)
    targets = torch.tensor(datum.target_ids)[:, None]
    logprobs, base_logprobs = (
        each.gather(1, targets)[:, 0] for each in (served.runner.forward(batch).log_softmax(-1), base)
    )
    assert (logprobs - expected).abs().max() <= 1e-4
    assert (base_logprobs - expected).abs().max() > 1e-2, "the adapter changes the logprobs"
    is_native = served.runner.adapters[1].native is not None
    assert is_native is (kind == "fused")
