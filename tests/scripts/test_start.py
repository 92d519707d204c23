"""start.sh, Neodim's command: the server starts with its arguments, once everything is installed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.system("posix")  # the scripts run in bash

ROOT = Path(__file__).parents[2]
ARGUMENTS = [
    "--model=EleutherAI/gpt-neo-1.3B",
    "--layers=0,2",
    "--listen-port=8787",
    "--precision",
    "float 16",
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the scripts, with programs in place of setup.sh and Python that print their arguments."""
    for file in ("start.sh", "scripts/serve.sh", "scripts/venv.sh"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    for file in ("scripts/setup.sh", ".venv/bin/python"):
        program = tmp_path / file
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text('#!/bin/bash\nprintf "%s\\n" "${0##*/}" "$@"\n')
        program.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("folder", [".", "/"], ids=["in its folder", "elsewhere"])
def test_start_sh_installs_and_starts_the_server(checkout: Path, folder: str) -> None:
    done = subprocess.run(
        [checkout / "start.sh", *ARGUMENTS],
        cwd=checkout / folder,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["setup.sh", "python", str(checkout / "main.py"), *ARGUMENTS]


def test_a_failed_installation_starts_no_server(checkout: Path) -> None:
    (checkout / "scripts/setup.sh").write_text("#!/bin/bash\nexit 3\n")
    done = subprocess.run([checkout / "start.sh"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "")
