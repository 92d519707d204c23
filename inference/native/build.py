"""Compiles the C library for a CPU level with this machine's compiler, and caches the result.

The name of the cache folder is a hash of the sources, the compiler, the flags and torch's version: a change
of any of them leads to a new build. `python -m inference.native.build` builds the library for this machine.
"""

import contextlib
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import torch
from filelock import FileLock, Timeout

from inference.native.cpu_levels import Level, levels_for, processor_features
from inference.process.cache_folder import cache_folder, is_own

C_SOURCES = Path(__file__).parent / "c"
COMPILERS = ("gcc", "cc", "clang")
FLAGS = (
    "-O3",
    "-std=gnu11",
    "-fPIC",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wall",
    "-Wno-psabi",
)
FLAGS_OF_SOURCES = {
    "gguf_quantize": ("-ffp-contract=off",),  # llama.cpp's bits: each product is rounded before it is added
    "multiply_plain": ("-O2",),  # compiled in 4 instead of 15 s, and no slower
}
# How the compiler of a system is told to use OpenMP, and torch's OpenMP library. Apple's needs a prefix.
OPENMP = {"Linux": ("-fopenmp",), "Darwin": ("-Xpreprocessor", "-fopenmp")}
OPENMP_LIBRARY = {"Linux": "libgomp*.so*", "Darwin": "libomp*.dylib"}
COMPILE_TIMEOUT_S = 600  # it takes 16 s of CPU time, and on a busy machine minutes
OWNER_WRITES = 0o755

log = logging.getLogger(__name__)


class NativeUnavailable(Exception):
    """Why there is no library: no compiler, a compiler error, or a cache folder that cannot be written."""


def build_library(level: Level) -> Path:
    """The path of the library of a level; compiles it if it is not cached. Raises NativeUnavailable."""
    compiler = compiler_of()
    folder = library_folder() / fingerprint(compiler, level)
    library = folder / f"hearth_{level.name}.so"
    if not is_built(library):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with only_builder(folder), tempfile.TemporaryDirectory(dir=folder) as scratch:
                if not is_built(library):
                    make_own(folder)
                    compile_into(Path(scratch), compiler, level).replace(library)
        except OSError as error:
            raise NativeUnavailable(f"the library cannot be written to {folder}: {error.strerror}") from error
    return library


def is_built(library: Path) -> bool:
    """Whether this user or root has compiled the library: another user's would be code in this process."""
    try:
        return is_own(library.parent.stat()) and is_own(library.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def make_own(folder: Path) -> None:
    """Keep others from writing into the folder. Raises OSError, and NativeUnavailable if it is not ours."""
    folder.chmod(OWNER_WRITES)
    if not is_own(folder.stat()):
        raise NativeUnavailable(
            f"{folder} belongs to another user: set XDG_CACHE_HOME to a folder of your own"
        )


@contextmanager
def only_builder(folder: Path) -> Iterator[None]:
    """Wait while another process builds for the folder: several models, or tests, may start at once.

    Where files cannot be locked, or the other one takes too long, each process builds.
    """
    lock = FileLock(folder.with_suffix(".lock"), timeout=COMPILE_TIMEOUT_S)
    with contextlib.suppress(Timeout, NotImplementedError):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def compiler_of() -> tuple[str, ...]:
    """The command of the C compiler: $CC, or the first of COMPILERS on the PATH. Raises NativeUnavailable."""
    named = shlex.split(os.environ.get("CC", ""))
    if named and shutil.which(named[0]):
        return tuple(named)
    compiler = next((name for name in COMPILERS if shutil.which(name)), None)
    if compiler is None:
        raise NativeUnavailable("there is no C compiler: install gcc")
    if named:
        log.warning("CC=%s is not on the PATH: %s is used", named[0], compiler)
    return (compiler,)


def library_folder() -> Path:
    """The folder for compiled libraries. Raises NativeUnavailable if the user has no home folder."""
    try:
        return cache_folder() / "native"
    except RuntimeError as error:
        raise NativeUnavailable("this user has no home folder: set XDG_CACHE_HOME") from error


def fingerprint(compiler: tuple[str, ...], level: Level) -> str:
    inputs = [
        torch.__version__,
        platform.machine(),
        *compiler,
        run_command((*compiler, "--version")),
        *FLAGS,
        *compile_openmp(),
        *level.flags,
        str(FLAGS_OF_SOURCES),
    ]
    digest = hashlib.sha256("\0".join(inputs).encode())
    for path in sorted(C_SOURCES.rglob("*.[ch]")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def sources_of(level: Level) -> list[Path]:
    """All C files except the kernels of other levels."""
    return [
        path
        for path in sorted(C_SOURCES.rglob("*.c"))
        if not path.stem.startswith("multiply_") or path.stem == f"multiply_{level.loops}"
    ]


def compile_into(scratch: Path, compiler: tuple[str, ...], level: Level) -> Path:
    """Compile the library of a level into `scratch`. Raises NativeUnavailable with the compiler's error."""

    def compile_one(source: Path) -> str:
        target = scratch / f"{source.stem}.o"
        flags = (*FLAGS, *compile_openmp(), *level.flags, *FLAGS_OF_SOURCES.get(source.stem, ()))
        run_command((*compiler, *flags, "-I", str(C_SOURCES), "-c", str(source), "-o", str(target)))
        return str(target)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sources_of(level)))
    library = scratch / f"hearth_{level.name}.so"
    run_command((*compiler, "-shared", *objects, "-o", str(library), *link_openmp(), "-lm"))
    library.chmod(OWNER_WRITES)
    return library


def compile_openmp() -> tuple[str, ...]:
    return OPENMP.get(platform.system(), OPENMP["Linux"])


def link_openmp() -> tuple[str, ...]:
    """The OpenMP library to link: the same file that torch loads, so that both share one thread team.

    macOS finds it by its name in the folders that the library names (rpath).
    """
    folder, name = Path(torch.__file__).parent, OPENMP_LIBRARY.get(platform.system(), "")
    places = (folder / "lib", folder.parent / "torch.libs") if name else ()
    library = next((path for place in places for path in sorted(place.glob(name))), None)
    if library is None:
        return ("-fopenmp",)
    return (
        (str(library), f"-Wl,-rpath,{library.parent}") if platform.system() == "Darwin" else (str(library),)
    )


def run_command(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NativeUnavailable(f"{command[0]} does not run: {error}") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        first_error = next((line for line in lines if "error" in line), lines[-1])
        raise NativeUnavailable(f"{command[0]} failed: {first_error}")
    return done.stdout


def main() -> None:
    """Build the fastest possible library and print its path, with a line for each level that fails."""
    for level in levels_for(processor_features()):
        try:
            print(f"native library: {level.name}, in {build_library(level)}")
            return
        except NativeUnavailable as reason:
            print(f"native library: no build for {level.name}: {reason}")


if __name__ == "__main__":
    main()
