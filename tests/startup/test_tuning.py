"""What serves whole models that a server has trained."""

import tempfile
from pathlib import Path

import pytest

from inference.metrics import Metrics
from startup.tuning import FineTunedHost
from tests.fakes.fake_backend import FakeBackend, make_models
from tests.selftest.planned_engine import MACHINE, plan_in_folder
from tests.settings.parsed_settings import parsed_settings
from tests.tiny_models import tiny


def test_the_folder_of_sockets_is_made_for_the_first_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is killed leaves it behind."""
    (temporary := tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    model = tiny.llama(tmp_path / "model")
    models = make_models(FakeBackend())
    host = FineTunedHost(parsed_settings(), models, plan_in_folder(model), MACHINE, Metrics())
    assert not list(temporary.iterdir())
    for name in ("full", "other"):
        host.add(name, model, parent="fake/model")
    assert len(list(temporary.iterdir())) == 1
    host.close()
    assert not list(temporary.iterdir())
