"""Packages that are too old are told in one line, before they are imported and fail."""

import subprocess
import sys
from pathlib import Path

import pytest

import packages

ROOT = Path(__file__).parent.parent


def test_what_is_installed_here_is_new_enough() -> None:
    assert packages.too_old() == ""


def test_one_that_is_not_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(packages.OLDEST, "transformers", "99.0")
    told = packages.too_old()
    assert told.startswith("transformers 5.") and "99.0 or newer is needed" in told
    assert "requirements.txt" in told


def test_one_that_is_missing_is_another_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "OLDEST", {"there-is-no-such-package": "1.0"})
    assert packages.too_old() == ""


@pytest.mark.parametrize(
    ("release", "numbers"), [("2.11.0+cpu", (2, 11)), ("5.17.0.dev0", (5, 17)), ("10.0", (10, 0))]
)
def test_releases_are_compared_by_number(release: str, numbers: tuple[int, int]) -> None:
    assert packages.numbers(release) == numbers


def test_the_start_ends_there(tmp_path: Path) -> None:
    """A transformers of an older release, as far as its metadata go, stands before ours in the path."""
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
    assert done.stderr.startswith("hearth: transformers 4.1.0 is installed, and 5.17 or newer is needed")
    assert done.stderr.count("\n") == 1


def test_an_older_python_is_told_before_anything_is_imported() -> None:
    program = f"import runpy, sys; sys.version_info = (3, 10, 4); runpy.run_path({str(ROOT / 'main.py')!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("hearth: Python 3.11 or newer is needed")
    assert done.stderr.count("\n") == 1
