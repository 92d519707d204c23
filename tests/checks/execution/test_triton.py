"""What Triton needs is missed before the download, with its cost and the fix."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checks import preflight, report
from checks.execution import triton
from checks.installation.triton_needs import (
    COMPILER,
    HEADERS,
    PACKAGE,
    apt_packages,
    describe_fix,
    find_missing,
)
from checks.machine import Gpu, Machine
from checks.memory.plan import Plan

pytestmark = pytest.mark.system("posix")  # Triton has no Windows version
PYTHON_DEV = f"python{sys.version_info.major}.{sys.version_info.minor}-dev"
A_GPU = Gpu("NVIDIA L4", free=24 * 10**9, total=24 * 10**9)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def install(folder: Path, name: str) -> None:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def test_a_bare_machine_lacks_everything(programs: Path) -> None:
    environment = {"PATH": str(programs)}
    missing = find_missing(environment, include=programs, package="there_is_no_such_package")
    assert missing == (COMPILER, HEADERS, PACKAGE)


@pytest.mark.parametrize(
    ("installed", "cc", "has"),
    [
        ("gcc", "", True),
        ("clang", "", True),
        ("cc", "", False),
        ("icx", "icx -O2", True),
        ("gcc", "icx", False),
    ],
)
def test_the_compiler_is_searched_for_as_triton_does(
    programs: Path, installed: str, cc: str, has: bool
) -> None:
    install(programs, installed)
    missing = find_missing({"PATH": str(programs), "CC": cc}, include=programs, package="json")
    assert (COMPILER not in missing) is has


def test_a_machine_with_compiler_headers_and_package_lacks_nothing(programs: Path) -> None:
    install(programs, "gcc")
    (programs / "Python.h").touch()
    assert find_missing({"PATH": str(programs)}, include=programs, package="json") == ()


def test_the_packages_of_the_interpreter_are_named() -> None:
    assert apt_packages((COMPILER, HEADERS)) == ("gcc", "libc6-dev", PYTHON_DEV)
    assert describe_fix((HEADERS,)) == f"apt-get install {PYTHON_DEV} libc6-dev"
    assert describe_fix((PACKAGE,)) == "pip3 install triton"


def test_a_model_on_a_gpu_is_warned_about(planned: Callable[..., Plan], machine: Machine) -> None:
    slow = replace(machine, gpus=(A_GPU,), missing_for_triton=(HEADERS,))
    finding = triton.check(planned(device="cuda"), slow)
    assert finding and finding.ok and "Python.h" in finding.have and "5 times slower" in finding.have
    assert PYTHON_DEV in finding.fix
    assert triton.check(planned(), slow) is None
    table = report.format_table([finding])
    assert "Triton  warn" in table and f"fix: apt-get install {PYTHON_DEV}" in table


def test_it_is_checked_before_the_download(planned: Callable[..., Plan], machine: Machine) -> None:
    slow = replace(machine, gpus=(A_GPU,), missing_for_triton=(COMPILER,))
    findings = {finding.name: finding for finding in preflight.run_checks(planned(device="cuda"), slow)}
    assert findings["Triton"].ok and findings["Triton"].fix
    ready = preflight.run_checks(planned(device="cuda"), replace(slow, missing_for_triton=()))
    assert not {finding.name: finding for finding in ready}["Triton"].fix
