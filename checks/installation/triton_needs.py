"""What Triton needs on the machine when it compiles a kernel: a C compiler and the headers of Python.

Imports only the standard library: scripts/setup.sh runs it.
"""

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

COMPILER, HEADERS, PACKAGE = "a C compiler", "Python.h", "the package triton"
COMPILERS = ("gcc", "clang")


def find_missing(
    environment: Mapping[str, str] = os.environ, include: Path | None = None, package: str = "triton"
) -> tuple[str, ...]:
    """What is missing of COMPILER, HEADERS and PACKAGE. `include`: the folder of Python's headers."""
    path = environment.get("PATH")
    # As triton/runtime/build.py searches: CC, then gcc, then clang.
    compilers = [environment["CC"].split()[0]] if environment.get("CC", "").strip() else COMPILERS
    has = {
        COMPILER: any(shutil.which(compiler, path=path) for compiler in compilers),
        HEADERS: ((include or include_folder()) / "Python.h").exists(),
        PACKAGE: importlib.util.find_spec(package) is not None,
    }
    return tuple(name for name, is_there in has.items() if not is_there)


def include_folder() -> Path:
    """The folder of Python.h. Debian's default scheme names a local one, which does not have it."""
    scheme = sysconfig.get_default_scheme()
    return Path(sysconfig.get_paths("posix_prefix" if scheme == "posix_local" else scheme)["include"])


def apt_packages(missing: tuple[str, ...]) -> tuple[str, ...]:
    """The packages of Debian and Ubuntu that have what is missing."""
    headers = f"python{sys.version_info.major}.{sys.version_info.minor}-dev"
    packages = {COMPILER: ("gcc", "libc6-dev"), HEADERS: (headers, "libc6-dev")}
    return tuple(dict.fromkeys(name for item in missing for name in packages.get(item, ())))


def describe_fix(missing: tuple[str, ...]) -> str:
    packages = apt_packages(missing)
    fixes = [f"apt-get install {' '.join(packages)}"] if packages else []
    return ", and ".join([*fixes, *(["pip3 install triton"] if PACKAGE in missing else [])])


if __name__ == "__main__":
    print(*apt_packages(find_missing()))
