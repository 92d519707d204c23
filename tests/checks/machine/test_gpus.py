"""GPUs, without a real one: which processes use their memory, what they support, why torch sees none."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from checks import preflight
from checks.execution import device
from checks.installation.nvidia_driver import Driver
from checks.machine import Machine
from checks.machine.gpus import (
    Gpu,
    explain_no_gpu,
    find_torch_gpus,
    fix_no_gpu,
    parse_users,
    supports_capability,
    with_memory_share,
)
from checks.memory.plan import Plan
from checks.report import format_table
from checks.resources import enough_memory
from hub.resolve import resolve_model
from tests.settings.parsed_settings import parsed_settings
from tests.tiny_models import tiny

Planner = Callable[..., Plan]
SMI = """\
GPU-aaaa, 4711, /usr/bin/python3, 11264
GPU-bbbb, 12, [Not Found], [N/A]
GPU-aaaa, 99, Xorg, 5
"""
OLD = Driver("550.54.15", ("Tesla T4",), ((7, 5),))
A = Gpu("Tesla T4", free=12 * 10**9, total=16 * 10**9, users=parse_users(SMI)["aaaa"])


@pytest.mark.parametrize(("share", "free"), [(1.0, 60), (0.8, 60), (0.5, 50)])
def test_free_gpu_memory_is_limited_to_the_usable_share(share: float, free: int) -> None:
    assert with_memory_share(Gpu("one", free=60, total=100), share).free == free


def test_processes_that_use_a_gpu_are_named() -> None:
    assert parse_users(SMI) == {
        "aaaa": ("python3 (process 4711) has 11.8 GB", "Xorg (process 99) has 5.2 MB")
    }


def test_missing_output_of_nvidia_smi_is_ignored() -> None:
    assert parse_users("") == parse_users("No devices were found\n") == {}


def test_other_processes_are_named_with_the_free_memory(planned: Planner, machine: Machine) -> None:
    crowded = replace(machine, gpus=(A,))
    findings = enough_memory.check_gpus(planned(device="cuda"), crowded)
    assert findings[0].have == (
        "12.0 GB free: python3 (process 4711) has 11.8 GB, Xorg (process 99) has 5.2 MB"
    )


@pytest.mark.parametrize(
    ("kind", "built", "runs"),
    [
        ((8, 0), ["sm_80"], True),
        ((8, 6), ["sm_80"], True),
        ((8, 0), ["sm_86"], False),
        ((9, 0), ["sm_80"], False),
        ((9, 0), ["sm_80", "compute_80"], True),
        ((9, 0), ["sm_90a"], True),
        ((12, 0), ["sm_90", "sm_120"], True),
        ((5, 0), ["sm_75", "sm_80", "compute_90"], False),
        ((7, 5), [], True),
    ],
)
def test_torch_supports_the_gpus_that_it_has_kernels_for(
    kind: tuple[int, int], built: list[str], runs: bool
) -> None:
    assert supports_capability(kind, built) is runs


def test_a_gpu_without_kernels_is_refused(planned: Planner, machine: Machine) -> None:
    old = replace(machine, gpus=(replace(A, unsupported_reason="torch has no kernels for its sm_50"),))
    finding = device.check(planned(device="cuda"), old)
    assert finding and not finding.ok and "no kernels" in finding.have and 'DEVICE = "cpu"' in finding.fix


def test_bfloat16_is_refused_on_a_gpu_without_it(planned: Planner, machine: Machine) -> None:
    old = replace(machine, gpus=(A,), bfloat16_devices=frozenset({"cpu"}))
    finding = device.check(planned(device="cuda", dtype="bfloat16"), old)
    assert finding and not finding.ok and 'DTYPE = "auto"' in finding.fix
    float16_finding = device.check(planned(device="cuda", dtype="float16"), old)
    assert float16_finding and float16_finding.ok


def test_a_gpu_that_torch_cannot_use_is_mentioned(planned: Planner, machine: Machine) -> None:
    why = "torch 2.13.0+cpu is built without CUDA"
    finding = device.check(planned(), replace(machine, no_gpu_reason=why, unused_gpus=("Tesla T4",)))
    assert finding and finding.ok and finding.have.endswith(why)


def test_the_reason_why_torch_sees_no_gpu_is_reported_if_one_is_requested(
    planned: Planner, machine: Machine
) -> None:
    why = "torch is built for CUDA 13.0: Found no NVIDIA driver on your system"
    findings = enough_memory.check_gpus(planned(device="cuda"), replace(machine, no_gpu_reason=why))
    assert findings[0].have == why and not findings[0].ok and "install an NVIDIA driver" in findings[0].fix


def test_auto_is_refused_if_torch_cannot_use_the_gpus(machine: Machine) -> None:
    why, fix = "torch 2.13.0 is built for CUDA 13.0, which needs driver 580", "update the NVIDIA driver"
    unused = replace(machine, unused_gpus=("Tesla T4", "Tesla T4"), no_gpu_reason=why, no_gpu_fix=fix)
    (finding,) = device.check_auto("auto", "", unused)
    assert not finding.ok and finding.have == f"Tesla T4: {why}"
    assert finding.fix == f'{fix}; or DEVICE = "cpu"'
    assert device.check_auto("cpu", "", unused) == device.check_auto("auto", "0", unused) == []
    assert device.check_auto("auto", "", machine) == []


def test_the_report_begins_with_the_gpu_that_torch_cannot_use(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    unused = replace(machine, unused_gpus=("Tesla T4",), no_gpu_reason="torch is built without CUDA")
    monkeypatch.setattr(preflight, "inspect", lambda **options: unused)
    for name in (str(tiny.llama(tmp_path / "tiny")), str(tmp_path / "absent")):
        settings = parsed_settings(MODEL_NAME=name, PORT=0)
        report = preflight.preflight(settings, partial(resolve_model, settings, tmp_path))
        assert not report.ok and report.findings[0].have == "Tesla T4: torch is built without CUDA"
        table = format_table(report.findings).splitlines()
        assert table[1].startswith("GPU") and "NO" in table[1] and "fix:" in table[2]


def test_the_driver_is_compared_with_the_build_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "needs driver 580 or newer, and the driver is 550.54.15" in explain_no_gpu(OLD)
    assert "update the NVIDIA driver to 580" in fix_no_gpu(OLD)
    monkeypatch.setattr(torch.version, "cuda", None)
    assert explain_no_gpu(OLD).endswith("is built without CUDA")
    assert "cu126" in fix_no_gpu(OLD) and "cu130" in fix_no_gpu(replace(OLD, version="580.65.06"))


def test_hidden_gpus_are_reported_with_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert explain_no_gpu(OLD) == "CUDA_VISIBLE_DEVICES=7 names no GPU that torch can use"
    assert fix_no_gpu(OLD) == "unset CUDA_VISIBLE_DEVICES"


def test_the_memory_of_gpus_with_a_driver_that_is_too_old_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """device_count() reads NVML, which also works where CUDA does not."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert list(find_torch_gpus()) == []


def test_on_this_machine_torch_sees_a_gpu_or_gives_the_reason() -> None:
    assert bool(explain_no_gpu(None)) is not torch.cuda.is_available()
