"""Which build of torch is chosen for a driver and its GPUs, and from where."""

import re
from pathlib import Path

import pytest

from checks.installation import torch_build
from checks.installation.nvidia_driver import Driver
from checks.installation.torch_build import (
    choose_build,
    choose_index,
    describe_fix,
    describe_mismatch,
    installed_cuda,
)

WHL = "https://index.example/whl"


def machine(version: str, *capabilities: tuple[int, int]) -> Driver:
    return Driver(version, ("a GPU",), capabilities)


@pytest.mark.parametrize(
    ("driver", "build"),
    [
        (None, "cpu"),
        (machine("580.65.06", (9, 0)), "cu130"),
        (machine("610.10"), "cu130"),
        (machine("579.99", (9, 0)), "cu126"),
        (machine("570.86.15", (8, 9)), "cu126"),
        (machine("525.60.13", (7, 5)), "cu126"),
        (machine("524.99", (7, 5)), ""),
        (machine("580.65.06", (7, 0)), "cu126"),
        (machine("570.86.15", (12, 0)), ""),
        (machine("580.65.06", (12, 1)), "cu130"),
        (machine("580.65.06", (7, 0), (12, 0)), ""),
    ],
)
def test_the_driver_and_the_gpus_decide_the_build(driver: Driver | None, build: str) -> None:
    assert choose_build(driver) == build


@pytest.mark.parametrize(
    ("index", "driver", "expected"),
    [
        ("", machine("580.65"), ""),
        (f"{WHL}/cpu", None, f"{WHL}/cpu"),
        (f"{WHL}/cu130", None, f"{WHL}/cu130"),
        (f"{WHL}/cpu", machine("550.54"), f"{WHL}/cu126"),
        (f"{WHL}/cpu/", machine("580.65"), f"{WHL}/cu130"),
        (f"{WHL}/cu130", machine("550.54"), f"{WHL}/cu126"),
        (f"{WHL}/cu126", machine("580.65", (9, 0)), f"{WHL}/cu126"),
        (f"{WHL}/cu126", machine("580.65", (12, 0)), f"{WHL}/cu130"),
        (f"{WHL}/cpu", machine("470.57"), f"{WHL}/cpu"),
        ("https://mirror.example/simple", machine("550.54"), "https://mirror.example/simple"),
    ],
)
def test_an_index_of_a_build_that_cannot_run_is_replaced(
    index: str, driver: Driver | None, expected: str
) -> None:
    assert choose_index(index, driver) == expected


@pytest.mark.parametrize(
    ("cuda", "driver", "reason"),
    [
        (None, machine("580.65"), "is built without CUDA"),
        ("13.0", machine("550.54"), "needs driver 580 or newer, and the driver is 550.54"),
        ("12.8", machine("550.54"), ""),
        ("12.8", machine("470.57"), "needs driver 525"),
        ("14.1", machine("560.10"), "needs driver 580"),
        ("11.8", machine("470.57"), ""),
        ("13.0", machine("580.65", (7, 0)), "without kernels for a GPU"),
        ("13.0", machine("580.65", (9, 0)), ""),
    ],
)
def test_the_installed_build_is_compared_with_the_driver(
    cuda: str | None, driver: Driver, reason: str
) -> None:
    mismatch = describe_mismatch(cuda, driver)
    assert reason in mismatch and bool(reason) == bool(mismatch)


def test_the_fix_names_what_helps() -> None:
    assert describe_fix(machine("580.65", (9, 0))) == (
        "run scripts/setup.sh, which installs the cu130 build of torch"
    )
    assert describe_fix(machine("550.54", (9, 0))) == (
        "update the NVIDIA driver to 580 or newer, or set TORCH_INDEX to PyTorch's package index "
        "of cu126 builds and run scripts/setup.sh"
    )
    assert "update" not in describe_fix(machine("580.65", (7, 0)))
    assert describe_fix(machine("470.57")) == (
        "update the NVIDIA driver to 580 or newer, then run scripts/setup.sh"
    )


@pytest.mark.parametrize(
    ("line", "cuda"),
    [("cuda: Optional[str] = '13.0'", "13.0"), ("cuda: str | None = None", None), ("cuda = '12.8'", "12.8")],
)
def test_the_installed_cuda_is_read_without_an_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, cuda: str | None
) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    (package / "version.py").write_text(f"debug = False\n{line}\nhip = None\n")
    monkeypatch.setattr(
        torch_build.importlib.util, "find_spec", lambda name: FakeSpec([str(package)]) if name else None
    )
    assert installed_cuda() == (True, cuda)


class FakeSpec:
    def __init__(self, folders: list[str]) -> None:
        self.submodule_search_locations = folders


def test_no_other_build_is_named_in_the_docs() -> None:
    text = (Path(__file__).parents[3] / "docs/models_and_hardware.md").read_text()
    assert set(re.findall(r"cu\d{3}\b", text)) == {build.name for build in torch_build.BUILDS}
