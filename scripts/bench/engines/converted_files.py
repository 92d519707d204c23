"""Converts models to another engine's format; keeps the files below the engines folder."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from scripts.bench.engine_under_test import EngineFailed
from scripts.bench.options import BenchOptions
from scripts.bench.server import ROOT


def convert_once(
    options: BenchOptions, name: str, make_command: Callable[[Path], Sequence[str | Path]]
) -> Path:
    """The path of the converted file or folder, which is created if it is missing.

    make_command: path to write -> the command that writes it. Raises EngineFailed if the command fails.
    """
    path = Path(options.engines_folder, "models", f"{Path(options.model).name}-{name}").resolve()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"unfinished-{path.name}")
        command = [str(argument) for argument in make_command(unfinished)]
        if subprocess.run(command, cwd=ROOT, stdout=sys.stderr).returncode:
            remove(unfinished)
            raise EngineFailed(f"conversion failed: {' '.join(command)}")
        unfinished.rename(path)
    return path


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
