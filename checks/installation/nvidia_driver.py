"""The NVIDIA driver and its GPUs, as nvidia-smi or the kernel reports them, whatever torch sees.

Imports only the standard library: scripts/setup.sh runs it before torch is installed. As a program it prints
the driver and its GPUs, and exits with 1 if there is none.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# Older releases of nvidia-smi do not know compute_cap, and refuse the whole query.
QUERIES = ("driver_version,name,compute_cap", "driver_version,name")
TIMEOUT_S = 20  # without the persistence daemon nvidia-smi initializes each GPU first
PROC = Path("/proc/driver/nvidia")
DEV = Path("/dev")


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver with at least one GPU.

    version       such as "550.54.15"
    gpus          the names of the GPUs
    capabilities  their compute capabilities; empty if they are unknown
    """

    version: str
    gpus: tuple[str, ...]
    capabilities: tuple[tuple[int, int], ...] = ()

    @property
    def branch(self) -> int:
        """The first number of the version, by which NVIDIA states what a driver supports."""
        return int(self.version.partition(".")[0])


def find_driver(
    environment: Mapping[str, str] = os.environ, proc: Path = PROC, dev: Path = DEV
) -> Driver | None:
    """The driver; None if there is none, it has no GPU, or CUDA_VISIBLE_DEVICES hides every GPU.

    A container without GPUs sees the host's /proc/driver/nvidia, but no device file of a GPU.
    """
    if environment.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return None
    for query in QUERIES:
        if driver := parse_driver(run_nvidia_smi(query, environment)):
            return driver
    return read_kernel_module(proc) if any(dev.glob("nvidia[0-9]*")) else None


def run_nvidia_smi(query: str, environment: Mapping[str, str]) -> str:
    """The answer to the query as CSV, one line a GPU; empty if nvidia-smi is missing, fails or hangs."""
    try:
        return subprocess.run(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
            env=dict(environment),
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def parse_driver(output: str) -> Driver | None:
    """The driver from lines such as "550.54.15, Tesla T4, 7.5"; the capability may be absent."""
    rows = [[cell.strip() for cell in line.split(",")] for line in output.splitlines()]
    rows = [row for row in rows if len(row) > 1 and re.match(r"\d+\.", row[0])]
    if not rows:
        return None
    numbers = [re.fullmatch(r"(\d+)\.(\d+)", row[-1]) for row in rows if len(row) > 2]
    capabilities = tuple((int(match[1]), int(match[2])) for match in numbers if match)
    return Driver(rows[0][0], tuple(row[1] for row in rows), capabilities)


def read_kernel_module(proc: Path) -> Driver | None:
    """The driver from the files of its kernel module; None without the module."""
    try:
        match = re.search(r"Module.*?\s(\d+(?:\.\d+)+)", (proc / "version").read_text("utf-8"))
        files = [path.read_text("utf-8") for path in sorted(proc.glob("gpus/*/information"))]
    except OSError:
        return None
    names = [model[1] for text in files if (model := re.search(r"Model:\s*(.+)", text))]
    return Driver(match[1], tuple(names) or ("an NVIDIA GPU",)) if match else None


if __name__ == "__main__":
    driver = find_driver()
    print(f"{', '.join(driver.gpus)} with driver {driver.version}" if driver else "none")
    sys.exit(driver is None)
