"""Files that a peer needs of a model, made once and kept below the folder of peers."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from scripts.bench.contender import Lost
from scripts.bench.server import ROOT
from scripts.bench.terms import Terms


def made(terms: Terms, name: str, make: Callable[[Path], Sequence[str | Path]]) -> Path:
    """The path of what the command that `make` gives for an unfinished path writes there."""
    home = Path(terms.peers, "models", f"{Path(terms.model).name}-{name}").resolve()
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        unfinished = home.with_name(f"unfinished-{home.name}")
        command = [str(part) for part in make(unfinished)]
        if subprocess.run(command, cwd=ROOT, stdout=sys.stderr).returncode:
            discard(unfinished)
            raise Lost(f"could not be made: {' '.join(command)}")
        unfinished.rename(home)
    return home


def discard(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
