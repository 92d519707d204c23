"""The oldest transformers that the server accepts has every module and name that the project imports from it.

Machines with a GPU may have it, and no other test runs with it: a name that it lacks could keep all models
from loading. Read from its wheel, because to install it would take another torch.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from zipfile import ZipFile

import pytest

from checks.installation.versions import MIN_VERSIONS

ROOT = Path(__file__).parents[3]
FOLDERS = ("api", "checks", "hub", "inference", "scripts", "selftest", "settings", "startup", "tuning")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Release:
    """The modules of a wheel of transformers, and the names in them."""

    def __init__(self, wheel: Path) -> None:
        self._archive = ZipFile(wheel)
        self._files = set(self._archive.namelist())

    def has(self, module: str, name: str) -> bool:
        """Whether `from module import name` works."""
        is_public = module == "transformers" and f'"{name}"'.encode() in self._text
        return is_public or name in self._names(module) or self.file(f"{module}.{name}") is not None

    @cached_property
    def _text(self) -> bytes:
        """All modules: the package imports what their lists named __all__ have."""
        return b"\n".join(self._archive.read(file) for file in self._files if file.endswith(".py"))

    def file(self, module: str) -> str | None:
        path = module.replace(".", "/")
        return next((file for file in (f"{path}.py", f"{path}/__init__.py") if file in self._files), None)

    @cache  # noqa: B019 — one wheel in the process
    def _names(self, module: str) -> frozenset[str]:
        file = self.file(module)
        if file is None:
            return frozenset()
        return frozenset(
            name for node in ast.walk(ast.parse(self._archive.read(file))) for name in defined_by(node)
        )


def defined_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, DEFINITIONS):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).partition(".")[0]


def imported_names() -> Iterator[tuple[str, str, str]]:
    """File, module and name of each import from transformers."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "transformers":
                    for alias in node.names:
                        yield str(path.relative_to(ROOT)), node.module or "", alias.name


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Release:
    folder = tmp_path_factory.mktemp("wheel")
    pin = f"transformers=={MIN_VERSIONS['transformers']}.0"
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, pin], check=True
    )
    return Release(next(folder.glob("*.whl")))


@pytest.mark.slow
def test_imported_names_exist(oldest: Release) -> None:
    imports = list(imported_names())
    assert len(imports) > 50
    missing = [f"{file}: {module}.{name}" for file, module, name in imports if not oldest.has(module, name)]
    assert not missing


@pytest.mark.slow
def test_a_missing_name_is_found(oldest: Release) -> None:
    assert not oldest.has("transformers", "AutoModelForNothing")
    assert not oldest.has("transformers.cache_utils", "KVSharingDict")
    assert not oldest.has("transformers.no_such_module", "Cache")
