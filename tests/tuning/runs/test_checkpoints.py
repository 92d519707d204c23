"""Checkpoints of runs where the served model takes no adapters."""

from pathlib import Path

import pytest

from inference.database import Database
from inference.errors import BadRequest
from tuning.jobs.fine_tuned_models import FineTunedModels
from tuning.runs.checkpoints import Checkpoints
from tuning.service import DATABASE_FILE, SCHEMA


def test_a_model_without_adapters_refuses_to_sample_checkpoints(tmp_path: Path) -> None:
    database = Database(tmp_path / DATABASE_FILE, SCHEMA)
    checkpoints = Checkpoints(tmp_path, database, FineTunedModels(tmp_path / "models", ("base",), None))
    with pytest.raises(BadRequest, match="the served model takes no adapters: checkpoints cannot be sampled"):
        checkpoints.load("tinker://s:train:0/sampler_weights/x", tmp_path)
    database.close()
