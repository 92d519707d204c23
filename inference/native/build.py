"""The C library, compiled once for each level of processor by this machine's compiler, and kept in a cache.

Its folder is named by what it was made from, so new sources, another compiler or torch make a new one.
`python -m inference.native.build` builds the one for this machine.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from inference.native.levels import Level, levels_for
from inference.native.processor import processor_features

SOURCES = Path(__file__).parent / "c"
COMPILERS = ("gcc", "cc", "clang")
FLAGS = (
    "-O3",
    "-std=gnu11",
    "-fPIC",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wall",
    "-Wno-psabi",
)
PATIENCE_S = 120


class Unbuilt(Exception):
    """Why there is no library: no compiler, an error of it, or nowhere to keep what it makes."""


def built(level: Level) -> Path:
    """The library of a level, compiled now if it was not before. Raises Unbuilt."""
    compiler = compiler_of()
    folder = cache() / fingerprint(compiler, level)
    library = folder / f"hearth_{level.name}.so"
    if not library.exists():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                compile_into(Path(scratch), compiler, level).rename(library)
        except OSError as error:
            raise Unbuilt(f"nothing can be kept in {folder}: {error.strerror}") from error
    return library


def compiler_of() -> tuple[str, ...]:
    """The command of the C compiler: $CC, or the first that there is. Raises Unbuilt."""
    named = shlex.split(os.environ.get("CC", ""))
    if named and shutil.which(named[0]):
        return tuple(named)
    found = next((name for name in COMPILERS if shutil.which(name)), None)
    if found is None:
        raise Unbuilt("there is no C compiler: install gcc")
    return (found,)


def cache() -> Path:
    """Where libraries are kept. Raises Unbuilt where this user has no place."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hearth" / "native"
    except RuntimeError as error:
        raise Unbuilt("this user has no home folder: set XDG_CACHE_HOME") from error


def fingerprint(compiler: tuple[str, ...], level: Level) -> str:
    parts = [
        torch.__version__,
        platform.machine(),
        *compiler,
        run((*compiler, "--version")),
        *FLAGS,
        *level.flags,
    ]
    digest = hashlib.sha256("\0".join(parts).encode())
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def sources_of(level: Level) -> list[Path]:
    """All C files but the loops of other levels."""
    files = sorted(SOURCES.glob("*.c"))
    return [path for path in files if path.stem == f"multiply_{level.loops}" or not is_of_a_level(path)]


def is_of_a_level(path: Path) -> bool:
    return path.stem.startswith("multiply_")


def compile_into(scratch: Path, compiler: tuple[str, ...], level: Level) -> Path:
    """The library of a level, in `scratch`. Raises Unbuilt with what the compiler says."""

    def compile_one(source: Path) -> str:
        target = scratch / f"{source.stem}.o"
        run((*compiler, *FLAGS, *level.flags, "-c", str(source), "-o", str(target)))
        return str(target)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sources_of(level)))
    library = scratch / f"hearth_{level.name}.so"
    run((*compiler, "-shared", *objects, "-o", str(library), *openmp(), "-lm"))
    return library


def openmp() -> tuple[str, ...]:
    """What to link for threads: the very library that torch loads, so that both share one team of them."""
    folder = Path(torch.__file__).parent
    places = (folder / "lib", folder.parent / "torch.libs")
    found = next((path for place in places for path in sorted(place.glob("libgomp*.so*"))), None)
    return (str(found),) if found else ("-fopenmp",)


def run(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unbuilt(f"{command[0]} does not run: {error}") from error
    if done.returncode:
        raise Unbuilt(f"{command[0]} says: {first_error(done.stderr)}")
    return done.stdout


def first_error(text: str) -> str:
    lines = text.strip().splitlines() or ["nothing"]
    return next((line for line in lines if "error" in line), lines[-1])


def main() -> None:
    """Say in one line what was built for this machine, or why nothing was."""
    for level in levels_for(processor_features()):
        try:
            print(f"native library: {level.name}, in {built(level)}")
            return
        except Unbuilt as reason:
            print(f"native library: not {level.name}, because {reason}")


if __name__ == "__main__":
    main()
