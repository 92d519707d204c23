"""CPU features."""

import platform
import subprocess
from pathlib import Path

import pytest

from inference.native.cpu_levels import processor_features, processor_name


def test_processor_features_are_read_from_the_kernels_list(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("processor : 0\nflags\t\t: fpu avx2 amx_bf16\n\nprocessor : 1\n")
    assert processor_features(path) == {"fpu", "avx2", "amx_bf16"}


def test_on_a_mac_they_have_apples_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = "hw.optional.AdvSIMD: 1\nhw.optional.arm.FEAT_DotProd: 1\nhw.optional.arm.FEAT_BF16: 0\n"
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(
        subprocess, "run", lambda command, **options: subprocess.CompletedProcess(command, 0, printed)
    )
    assert processor_features(tmp_path / "absent") == {"asimd", "asimddp"}


def test_the_processor_s_name_is_that_of_the_kernel_s_list(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("processor : 0\nmodel\t\t: 143\nmodel name\t: AMD EPYC 9004\n\nprocessor : 1\n")
    assert processor_name(path) == "AMD EPYC 9004"
    assert processor_name(tmp_path / "missing")
