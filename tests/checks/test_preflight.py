"""How settings become a plan."""

from pathlib import Path

import pytest

from checks.machine import Gpu, Machine
from checks.preflight import plan_repository
from hub.resolve import resolve_model
from tests.settings.parsed_settings import parsed_settings
from tests.tiny_models import tiny


@pytest.mark.parametrize(
    ("layers", "gpus", "layer_devices"),
    [("", 1, ()), ("a", 1, ()), ("1", 1, ("cuda:0", "cpu")), ("1,a", 2, ("cuda:0", "cuda:1")), ("1", 0, ())],
)
def test_layers_reach_the_plan(
    tmp_path: Path, layers: str, gpus: int, layer_devices: tuple[str, ...]
) -> None:
    machine = Machine(10**12, 10**12, (Gpu("a", 10**11, 10**11),) * gpus, frozenset({"cpu", "cuda"}), "")
    settings = parsed_settings(MODEL_NAME=str(tiny.llama(tmp_path / "two")), LAYERS=layers)
    assert (
        plan_repository(settings, resolve_model(settings, tmp_path), machine).layer_devices == layer_devices
    )
