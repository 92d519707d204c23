"""Environments of clients: who installs their packages."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.clients.environments import LATER, create_environment

pytestmark = pytest.mark.slow


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A package for later Pythons without dependencies, whose module prints its file."""
    path = tmp_path / "client-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("client.py", "print(__file__)")
        metadata = "Metadata-Version: 2.1\nName: client\nVersion: 1.0\nRequires-Python: >=3.12\n"
        file.writestr("client-1.0.dist-info/METADATA", metadata)
        file.writestr("client-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr("client-1.0.dist-info/RECORD", "")
    return path


@pytest.mark.parametrize(("link_mode", "installer"), [("copy", "uv"), ("none of uv's", "pip")])
def test_pip_installs_where_uv_fails(
    tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch, link_mode: str, installer: str
) -> None:
    monkeypatch.setenv("UV_LINK_MODE", link_mode)
    home = tmp_path / "environment"
    create_environment(home, "--no-deps", *LATER, str(wheel))
    output = subprocess.run([home / "bin/python", "-m", "client"], capture_output=True, text=True, check=True)
    assert output.stdout.startswith(str(home))
    [record] = home.rglob("client-1.0.dist-info/INSTALLER")
    assert record.read_text().strip() == installer
