"""GPUs, told without having one: who uses their memory, what they compute, why there are none."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from checks import device, memory
from checks.machine import Machine
from checks.machine.graphics import Gpu, capped, computes, none_because, users
from checks.plan import Plan

Planner = Callable[..., Plan]
SMI = """\
GPU-aaaa, 4711, /usr/bin/python3, 11264
GPU-bbbb, 12, [Not Found], [N/A]
GPU-aaaa, 99, Xorg, 5
"""
A = Gpu("Tesla T4", free=12 * 10**9, total=16 * 10**9, users=users(SMI)["aaaa"])


@pytest.mark.parametrize(("share", "free"), [(1.0, 60), (0.8, 60), (0.5, 50)])
def test_a_gpu_has_no_more_than_the_share_of_it_that_may_be_used(share: float, free: int) -> None:
    assert capped(Gpu("one", free=60, total=100), share).free == free


def test_who_has_memory_of_a_gpu_is_named() -> None:
    assert users(SMI) == {"aaaa": ("python3 (process 4711) has 11.8 GB", "Xorg (process 99) has 5.2 MB")}


def test_what_nvidia_smi_does_not_say_is_left_out() -> None:
    assert users("") == users("No devices were found\n") == {}


def test_the_other_users_stand_beside_what_is_free(planned: Planner, machine: Machine) -> None:
    crowded = replace(machine, gpus=(A,))
    found = memory.check_gpus(planned(device="cuda"), crowded)
    assert found[0].have == ("12.0 GB free: python3 (process 4711) has 11.8 GB, Xorg (process 99) has 5.2 MB")


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
def test_a_torch_has_kernels_for_some_gpus(kind: tuple[int, int], built: list[str], runs: bool) -> None:
    assert computes(kind, built) is runs


def test_a_gpu_without_kernels_is_refused(planned: Planner, machine: Machine) -> None:
    old = replace(machine, gpus=(replace(A, lacks="torch has no kernels for its sm_50"),))
    finding = device.check(planned(device="cuda"), old)
    assert finding and not finding.ok and "no kernels" in finding.have and 'DEVICE = "cpu"' in finding.mend


def test_a_gpu_without_bfloat16_is_not_asked_for_it(planned: Planner, machine: Machine) -> None:
    old = replace(machine, gpus=(A,), bfloat16=frozenset({"cpu"}))
    finding = device.check(planned(device="cuda", dtype="bfloat16"), old)
    assert finding and not finding.ok and 'DTYPE = "auto"' in finding.mend
    taken = device.check(planned(device="cuda", dtype="float16"), old)
    assert taken and taken.ok


def test_a_processor_without_bfloat16_is_told_to_be_slow(planned: Planner, machine: Machine) -> None:
    plain = replace(machine, bfloat16=frozenset())
    finding = device.check(planned(dtype="bfloat16"), plain)
    assert finding and finding.ok and "slower" in finding.have
    fast = device.check(planned(dtype="bfloat16"), machine)
    assert fast and "slower" not in fast.have


def test_a_gpu_that_torch_cannot_use_is_mentioned(planned: Planner, machine: Machine) -> None:
    why = "an NVIDIA driver is here, but torch 2.13.0+cpu is built without CUDA"
    finding = device.check(planned(), replace(machine, no_gpu=why))
    assert finding and finding.ok and finding.have.endswith(why)


def test_why_torch_sees_no_gpu_is_told_where_one_is_asked_for(planned: Planner, machine: Machine) -> None:
    why = "torch is built for CUDA 13.0: Found no NVIDIA driver on your system"
    found = memory.check_gpus(planned(device="cuda"), replace(machine, no_gpu=why))
    assert found[0].have == why and not found[0].ok


def test_here_torch_sees_a_gpu_or_says_why_not() -> None:
    import torch

    assert bool(none_because()) is not torch.cuda.is_available()
