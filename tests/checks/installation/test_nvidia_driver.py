"""The driver as nvidia-smi, or the kernel module without it, reports it."""

import os
from pathlib import Path

import pytest

from checks.installation.nvidia_driver import Driver, find_driver

H100 = "550.54.15, NVIDIA H100 80GB HBM3, 9.0\n"
CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:\n"
)
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (builder)\n"


def fake_smi(folder: Path, script: str) -> dict[str, str]:
    """The environment whose nvidia-smi is this shell script."""
    if os.name != "posix":
        pytest.skip("needs posix")
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PATH": str(folder)}


def fake_module(folder: Path, version: str, *, device_files: bool = True) -> dict[str, Path]:
    """The folders /proc/driver/nvidia and /dev of a machine with one GPU."""
    proc, dev = folder / "proc", folder / "dev"
    (proc / "gpus/0000:01:00.0").mkdir(parents=True)
    (proc / "version").write_text(version)
    (proc / "gpus/0000:01:00.0/information").write_text("Model: \t\t NVIDIA L4\nIRQ: 1\n")
    dev.mkdir()
    if device_files:
        (dev / "nvidia0").touch()
    return {"proc": proc, "dev": dev}


@pytest.fixture
def nothing(tmp_path: Path) -> dict[str, Path]:
    return {"proc": tmp_path / "no-proc", "dev": tmp_path / "no-dev"}


def test_nvidia_smi_names_the_driver_and_the_gpus(tmp_path: Path, nothing: dict[str, Path]) -> None:
    environment = fake_smi(tmp_path, f"printf '{H100}{H100}'")
    assert find_driver(environment, **nothing) == Driver(
        "550.54.15", ("NVIDIA H100 80GB HBM3",) * 2, ((9, 0), (9, 0))
    )


def test_an_older_nvidia_smi_does_not_know_the_capability(tmp_path: Path, nothing: dict[str, Path]) -> None:
    script = 'case "$*" in *compute_cap*) exit 2;; esac; echo "470.57.02, Tesla K80"'
    assert find_driver(fake_smi(tmp_path, script), **nothing) == Driver("470.57.02", ("Tesla K80",))


@pytest.mark.parametrize(("text", "version"), [(CLOSED, "550.54.15"), (OPEN, "580.65.06")])
def test_without_nvidia_smi_the_kernel_module_is_read(tmp_path: Path, text: str, version: str) -> None:
    folders = fake_module(tmp_path, text)
    assert find_driver({"PATH": ""}, **folders) == Driver(version, ("NVIDIA L4",))


def test_a_container_without_gpus_has_no_driver(tmp_path: Path) -> None:
    assert find_driver({"PATH": ""}, **fake_module(tmp_path, CLOSED, device_files=False)) is None


@pytest.mark.parametrize("script", ["echo No devices were found", "exit 9"])
def test_a_failing_nvidia_smi_reports_nothing(tmp_path: Path, nothing: dict[str, Path], script: str) -> None:
    assert find_driver(fake_smi(tmp_path, script), **nothing) is None


@pytest.mark.parametrize("visible", ["", "-1"])
def test_gpus_that_are_hidden_on_purpose_do_not_count(tmp_path: Path, visible: str) -> None:
    environment = fake_smi(tmp_path, f"printf '{H100}'") | {"CUDA_VISIBLE_DEVICES": visible}
    assert find_driver(environment) is None
