"""What a model's weights will take is guessed from its files, before any library is there."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import guess
from main import HOME
from settings.fields import Settings
from settings.layers import config_layer
from settings.resolve import resolve


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(guess, "GPU", tmp_path / "no GPU")
    (tmp_path / "a.safetensors").write_bytes(bytes(1000))
    (tmp_path / "b.safetensors").write_bytes(bytes(500))
    (tmp_path / "other.bin").write_bytes(bytes(9000))
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    defaults = resolve([config_layer(HOME / "config.py")])
    return replace(defaults, model_name=str(tmp_path), device="auto", quantise="none")


def test_a_folders_safetensors_are_counted(settings: Settings) -> None:
    assert guess.weights(settings) == 1500
    assert guess.weights(replace(settings, quantise="int8")) == 750
    assert guess.weights(replace(settings, model_name="/nowhere")) == 0


def test_nothing_is_wanted_beside_experts_that_are_put_together(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mixtral", "num_local_experts": 8}')
    assert guess.weights(settings) == 0


def test_nothing_is_wanted_where_weights_are_elsewhere(settings: Settings, tmp_path: Path) -> None:
    for changes in ({"device": "cuda"}, {"num_shard": 2}, {"layers": "cpu:4"}, {"dtype": "float32"}):
        assert guess.weights(replace(settings, **changes)) == 0
    guess.GPU.touch()
    assert guess.weights(settings) == 0
    assert guess.weights(replace(settings, device="cpu")) == 1500


def test_a_name_is_looked_for_in_the_cache(settings: Settings, tmp_path: Path) -> None:
    snapshots = tmp_path / "cache" / "models--some--model" / "snapshots"
    for age, (name, size) in enumerate((("new", 40), ("old", 90))):
        (snapshots / name).mkdir(parents=True)
        (snapshots / name / "model.safetensors").write_bytes(bytes(size))
        (snapshots / name / "config.json").write_text("{}")
        os.utime(snapshots / name, (1e9 - age, 1e9 - age))
    named = replace(settings, model_name="some/model", cache_dir=str(tmp_path / "cache"))
    assert guess.weights(named) == 40
    assert guess.weights(replace(named, model_name="another/model")) == 0


def test_no_more_than_a_share_of_the_tightest_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 90 kB\nMemAvailable:   8000 kB\n")
    (tmp_path / "cgroup").write_text("0::/some/service\n")
    group = tmp_path / "groups" / "some"
    (group / "service").mkdir(parents=True)
    monkeypatch.setattr(guess, "MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(guess, "OWN", tmp_path / "cgroup")
    monkeypatch.setattr(guess, "GROUPS", tmp_path / "groups")
    (group / "service" / "memory.max").write_text("max\n")
    (group / "service" / "memory.current").write_text("10\n")
    assert guess.memory() == 8000 * 1024 // 4
    (group / "memory.max").write_text("4000\n")
    (group / "memory.current").write_text("1000\n")
    assert guess.memory() == 750
    (group / "memory.current").write_text("5000\n")
    assert guess.memory() == 0


def test_no_library_is_loaded_for_it() -> None:
    never = {"torch", "numpy", "psutil", "transformers"}
    told = f"import sys, guess, inference.native.prepared; assert not {never} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", told], cwd=HOME, check=True)
