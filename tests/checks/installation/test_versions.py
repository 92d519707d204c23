"""Outdated packages are reported in one line, before they are imported and fail."""

import subprocess
import sys
from pathlib import Path

import pytest

from checks.installation import versions

ROOT = Path(__file__).parents[3]


def test_the_installed_packages_are_new_enough() -> None:
    assert versions.describe_outdated() == ""


def test_an_outdated_package_is_named_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(versions.MIN_VERSIONS, "transformers", "99.0")
    message = versions.describe_outdated()
    assert message.startswith("transformers 5.") and "99.0 or newer is needed" in message
    assert "requirements.txt" in message


def test_a_missing_package_is_not_reported_as_outdated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "MIN_VERSIONS", {"there-is-no-such-package": "1.0"})
    assert versions.describe_outdated() == ""


@pytest.mark.parametrize(("package", "oldest"), [("torch", "2.99"), ("there-is-no-such-package", "1.0")])
def test_setup_accepts_only_packages_that_the_start_accepts(
    monkeypatch: pytest.MonkeyPatch, package: str, oldest: str
) -> None:
    assert versions.is_complete()
    monkeypatch.setitem(versions.MIN_VERSIONS, package, oldest)
    assert not versions.is_complete()


@pytest.mark.parametrize(
    ("release", "numbers"), [("2.11.0+cpu", (2, 11)), ("5.17.0.dev0", (5, 17)), ("10.0", (10, 0))]
)
def test_releases_are_compared_by_number(release: str, numbers: tuple[int, int]) -> None:
    assert versions.version_numbers(release) == numbers


def test_the_start_ends_with_an_outdated_package(tmp_path: Path) -> None:
    """The metadata of an older transformers release come first in the path."""
    dist = tmp_path / "transformers-4.1.0.dist-info"
    dist.mkdir()
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: transformers\nVersion: 4.1.0\n")
    done = subprocess.run(
        [sys.executable, str(ROOT / "main.py"), "--check"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("hearth: transformers 4.1.0 is installed, but 5.17 or newer is needed")
    assert done.stderr.count("\n") == 1


def test_an_older_python_is_reported_before_anything_is_imported() -> None:
    program = f"import runpy, sys; sys.version_info = (3, 10, 4); runpy.run_path({str(ROOT / 'main.py')!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("hearth: Python 3.11 or newer is needed")
    assert done.stderr.count("\n") == 1
