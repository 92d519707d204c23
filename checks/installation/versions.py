"""Checks the versions of the main packages before any of them is imported.

MIN_VERSIONS are the oldest releases that work; requirements.txt has the tested ones. Imports only the
standard library: scripts/setup.sh also runs it, so that it accepts the packages that the server accepts.
"""

import re
import sys
from importlib.metadata import PackageNotFoundError, version

MIN_VERSIONS = {"torch": "2.11", "transformers": "5.17", "huggingface_hub": "1.0"}


def describe_outdated() -> str:
    """A message about the first outdated package; empty if none is. A missing package is not reported."""
    for package, oldest in MIN_VERSIONS.items():
        try:
            installed = version(package)
        except PackageNotFoundError:
            continue
        if version_numbers(installed) < version_numbers(oldest):
            return (
                f"{package} {installed} is installed, but {oldest} or newer is needed: "
                "run scripts/setup.sh, or pip3 install --upgrade -r requirements.txt"
            )
    return ""


def is_complete() -> bool:
    """Whether every package of MIN_VERSIONS is installed, and none is outdated."""
    try:
        return all(version(package) for package in MIN_VERSIONS) and not describe_outdated()
    except PackageNotFoundError:
        return False


def version_numbers(release: str) -> tuple[int, ...]:
    """Major and minor: 5.17.0.dev0 is (5, 17), 2.11.0+cpu is (2, 11)."""
    return tuple(int(number) for number in re.findall(r"\d+", release)[:2])


if __name__ == "__main__":
    sys.exit(not is_complete())
