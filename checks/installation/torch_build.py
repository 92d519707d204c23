"""Which build of torch the machine's NVIDIA driver and GPUs can run, and which one is installed.

Imports only the standard library: scripts/setup.sh runs it before torch is installed.
"""

import importlib.util
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from checks.installation.nvidia_driver import Driver, find_driver

CPU = "cpu"

# The oldest driver branch for a major version of CUDA: NVIDIA, "CUDA Compatibility", table "CUDA Toolkit
# 11.x, 12.x, and 13.x Driver Version Ranges". Within a major version an older driver runs a newer minor one.
MIN_DRIVERS = {12: 525, 13: 580}


@dataclass(frozen=True, slots=True)
class Build:
    """A build of torch.

    name            the last part of the address of its package index
    cuda            its version of CUDA
    oldest, newest  compute capabilities of the GPUs that it has kernels for
    """

    name: str
    cuda: str
    oldest: tuple[int, int]
    newest: tuple[int, int]


# PyTorch, RELEASE.md, "PyTorch CUDA Support Matrix" for the release in requirements.txt: Linux on x86, the
# preferred build first. The last architecture of cu130 is 12.0 with PTX, which also runs on newer GPUs.
BUILDS = (
    Build("cu130", "13.0", oldest=(7, 5), newest=(99, 0)),
    Build("cu126", "12.6", oldest=(5, 0), newest=(9, 0)),
)
DEFAULT_BUILD = BUILDS[0]  # the build in pip's own index


def min_driver(cuda: str) -> int:
    """The oldest driver branch that runs a torch built for this version of CUDA."""
    major = int(cuda.partition(".")[0])
    return MIN_DRIVERS.get(major, max(MIN_DRIVERS.values()) if major > max(MIN_DRIVERS) else 0)


def choose_build(driver: Driver | None) -> str:
    """The name of the build to install; CPU without a driver; empty if no build runs on all GPUs."""
    if driver is None:
        return CPU
    return next((build.name for build in BUILDS if runs_on(build, driver)), "")


def runs_on(build: Build, driver: Driver) -> bool:
    has_kernels = all(build.oldest <= capability <= build.newest for capability in driver.capabilities)
    return driver.branch >= min_driver(build.cuda) and has_kernels


def describe_mismatch(cuda: str | None, driver: Driver) -> str:
    """Why a torch built for this version of CUDA cannot use the GPUs; empty if it can.

    cuda  None: a CPU build
    """
    if cuda is None:
        return "is built without CUDA"
    if driver.branch < min_driver(cuda):
        return (
            f"is built for CUDA {cuda}, which needs driver {min_driver(cuda)} or newer, "
            f"and the driver is {driver.version}"
        )
    build = next((build for build in BUILDS if build.cuda == cuda), None)
    if build and not runs_on(build, driver):
        return f"is built for CUDA {cuda}, without kernels for {', '.join(driver.gpus)}"
    return ""


def describe_fix(driver: Driver) -> str:
    """What to install so that torch can use the GPUs of this driver."""
    newer_driver = f"update the NVIDIA driver to {min_driver(DEFAULT_BUILD.cuda)} or newer"
    name = choose_build(driver)
    if not name:
        return f"{newer_driver}, then run scripts/setup.sh"
    if name == DEFAULT_BUILD.name:
        return f"run scripts/setup.sh, which installs the {name} build of torch"
    install = f"set TORCH_INDEX to PyTorch's package index of {name} builds and run scripts/setup.sh"
    too_old = driver.branch < min_driver(DEFAULT_BUILD.cuda)
    return f"{newer_driver}, or {install}" if too_old else install


def installed_cuda() -> tuple[bool, str | None]:
    """Whether torch is installed, and its version of CUDA, None for a CPU build. Does not import torch."""
    spec = importlib.util.find_spec("torch")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        return False, None
    try:
        match = re.search(
            r"^cuda\b.*=\s*'([\d.]+)'", (Path(folders[0]) / "version.py").read_text("utf-8"), re.M
        )
    except OSError:
        return False, None
    return True, match[1] if match else None


def choose_index(index: str, driver: Driver | None) -> str:
    """TORCH_INDEX, with the build for the driver as its last part if that names a build that cannot run here.

    A CUDA build also runs without a GPU, so its index is used as it is: an image for a GPU machine may be
    made elsewhere. An address that ends in no build's name, such as that of a mirror, is used as it is.
    """
    stem, _, last = index.rstrip("/").rpartition("/")
    build = choose_build(driver)
    if driver is None or not build or not re.fullmatch(r"cpu|cu\d+", last):
        return index
    if any(each.name == last and runs_on(each, driver) for each in BUILDS):
        return index
    return f"{stem}/{build}"


def is_usable(driver: Driver | None) -> bool:
    """Whether torch is installed and can use the driver's GPUs, or no build could."""
    is_installed, cuda = installed_cuda()
    return is_installed and not (driver and choose_build(driver) and describe_mismatch(cuda, driver))


def main(arguments: list[str]) -> int:
    """For scripts/setup.sh. Prints the build to install and, unless it is in pip's own index, its index.

    Exit code 1 with a sentence if the index is unknown. With --usable: exit code 0 if is_usable.
    """
    driver = find_driver()
    if arguments == ["--usable"]:
        return int(not is_usable(driver))
    build, index = choose_build(driver), choose_index(os.environ.get("TORCH_INDEX", ""), driver)
    if driver and not build:
        print(f"no build runs on {describe(driver)}: {describe_fix(driver)}", file=sys.stderr)
    if driver and build and not index and build != DEFAULT_BUILD.name:
        print(
            f"{describe(driver)} needs the {build} build, which is not in pip's own index: "
            f"{describe_fix(driver)}; or set CUDA_VISIBLE_DEVICES to nothing, for the CPU"
        )
        return 1
    print(build or CPU, index)
    return 0


def describe(driver: Driver) -> str:
    return f"{', '.join(driver.gpus)} with driver {driver.version}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
