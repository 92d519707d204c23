"""The memory that a model's weights will take is estimated from its files, before any library is loaded."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from inference.native import prefault_estimate
from main import HOME
from settings.schema import Settings
from settings.sources import read_config_file, resolve


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(prefault_estimate, "NVIDIA_DEVICE", tmp_path / "no GPU")
    (tmp_path / "a.safetensors").write_bytes(bytes(1000))
    (tmp_path / "b.safetensors").write_bytes(bytes(500))
    (tmp_path / "other.bin").write_bytes(bytes(9000))
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    defaults = resolve([read_config_file(HOME / "config.py")])
    return replace(defaults, model_name=str(tmp_path), device="auto", quantize="none")


def test_a_folders_safetensors_are_counted(settings: Settings) -> None:
    assert prefault_estimate.estimate_weight_bytes(settings) == 1500
    assert prefault_estimate.estimate_weight_bytes(replace(settings, quantize="int8")) == 750
    assert prefault_estimate.estimate_weight_bytes(replace(settings, model_name="/nowhere")) == 0


def test_nothing_is_prefaulted_if_experts_are_merged(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mixtral", "num_local_experts": 8}')
    assert prefault_estimate.estimate_weight_bytes(settings) == 0


def test_nothing_is_prefaulted_if_the_weights_go_elsewhere(settings: Settings, tmp_path: Path) -> None:
    for changes in ({"device": "cuda"}, {"num_shard": 2}, {"layers": "cpu:4"}, {"dtype": "float32"}):
        assert prefault_estimate.estimate_weight_bytes(replace(settings, **changes)) == 0
    prefault_estimate.NVIDIA_DEVICE.touch()
    assert prefault_estimate.estimate_weight_bytes(settings) == 0
    assert prefault_estimate.estimate_weight_bytes(replace(settings, device="cpu")) == 1500


def test_a_model_name_is_looked_up_in_the_cache(settings: Settings, tmp_path: Path) -> None:
    snapshots = tmp_path / "cache" / "models--some--model" / "snapshots"
    for age, (name, size) in enumerate((("new", 40), ("old", 90))):
        (snapshots / name).mkdir(parents=True)
        (snapshots / name / "model.safetensors").write_bytes(bytes(size))
        (snapshots / name / "config.json").write_text("{}")
        os.utime(snapshots / name, (1e9 - age, 1e9 - age))
    named = replace(settings, model_name="some/model", cache_dir=str(tmp_path / "cache"))
    assert prefault_estimate.estimate_weight_bytes(named) == 40
    assert prefault_estimate.estimate_weight_bytes(replace(named, model_name="another/model")) == 0


def test_at_most_a_share_of_the_tightest_limit_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 90 kB\nMemAvailable:   8000 kB\n")
    (tmp_path / "cgroup").write_text("0::/some/service\n")
    group = tmp_path / "groups" / "some"
    (group / "service").mkdir(parents=True)
    monkeypatch.setattr(prefault_estimate, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(prefault_estimate, "OWN_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(prefault_estimate, "CGROUP_ROOT", tmp_path / "groups")
    (group / "service" / "memory.max").write_text("max\n")
    (group / "service" / "memory.current").write_text("10\n")
    assert prefault_estimate.estimate_free_bytes() == 8000 * 1024 // 4
    (group / "memory.max").write_text("4000\n")
    (group / "memory.current").write_text("1000\n")
    assert prefault_estimate.estimate_free_bytes() == 750
    (group / "memory.current").write_text("5000\n")
    assert prefault_estimate.estimate_free_bytes() == 0


def test_the_estimate_loads_no_library() -> None:
    never = {"torch", "numpy", "psutil", "transformers"}
    modules = "sys, inference.native.prefault, inference.native.prefault_estimate"
    code = f"import {modules}; assert not {never} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=HOME, check=True)
