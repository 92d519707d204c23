"""Imports go only to the same floor or below, without forbidden modules or cycles; no file is too long."""

import ast
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIMIT = 300
ROOT_MODULES = (
    "main",
    "serve_model",
    "config",
    "use",
    "tune",
)

# The longest matching prefix decides.
FLOORS = {
    "main": 5,
    "startup": 5,
    "selftest": 4,
    "serve_model": 5,
    "api": 4,
    "tuning": 3,
    "inference": 0,
    "inference.factory": 4,
    "inference.open_draft_model": 3,
    "inference.local": 3,
    "inference.lora": 2,
    "inference.lora.adapter": 1,
    "inference.remote": 3,
    "inference.on_demand": 3,
    "inference.replicas": 3,
    "inference.contrastive_search": 2,
    "inference.engine": 2,
    "inference.text": 2,
    "inference.structured_output": 2,
    "inference.backend": 1,
    "inference.link_messages": 1,
    "inference.models": 1,
    "inference.served": 1,
    "inference.metrics": 1,
    "inference.model": 1,
    "inference.native.prefault_estimate": 1,
    "inference.types": 0,
    "inference.events": 0,
    "inference.backend_info": 0,
    "inference.errors": 0,
    "inference.sampling": 0,
    "checks": 3,
    "hub": 2,
    "settings": 1,
    "config": 0,
}
NEVER = {
    "api": {"torch", "transformers", "inference.engine", "inference.model", "inference.local"},
    "tuning": {"flask", "inference.engine", "inference.local"},
    "inference.engine": {"transformers", "flask", "tokenizers", "inference.text"},
    "inference.model": {"inference.engine", "flask"},
    "inference.native": {"inference.model", "inference.engine", "transformers", "flask"},
    "inference.text": {"torch", "flask", "inference.engine", "inference.model"},
    "inference.types": {"torch", "flask", "transformers"},
    "inference.events": {"torch", "flask", "transformers"},
    "inference.backend": {"torch", "flask", "transformers"},
    "checks": {"inference.engine", "inference.local", "flask", "tuning"},
    "hub": {"checks", "inference.engine", "inference.local", "flask"},
    "settings": {"torch", "flask", "inference", "api", "tuning", "checks", "hub"},
}


def source_files() -> dict[str, Path]:
    files = [
        p
        for top in ("startup", "selftest", "api", "tuning", "inference", "checks", "hub", "settings")
        for p in (ROOT / top).rglob("*.py")
    ]
    files += [ROOT / f"{name}.py" for name in ROOT_MODULES if (ROOT / f"{name}.py").exists()]
    return {module_name(path): path for path in files}


def module_name(path: Path) -> str:
    components = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(components[:-1] if components[-1] == "__init__" else components)


def imports(path: Path, known: set[str]) -> set[str]:
    """Modules that a file imports; `from a import b` counts as a.b if that is a module."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported |= {
                full if (full := f"{node.module}.{alias.name}") in known else node.module
                for alias in node.names
            }
    return imported


def is_within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


def floor(module: str) -> int:
    matches = [prefix for prefix in FLOORS if is_within(module, prefix)]
    assert matches, f"{module} has no floor: add it to FLOORS"
    return FLOORS[max(matches, key=len)]


SOURCE_FILES = source_files()
SERVER = ("inference.engine", "inference.local", "inference.factory", "api", "flask", "uvicorn")
FOLDERS = [name for name, path in SOURCE_FILES.items() if path.name == "__init__.py"]


@cache
def import_graph() -> Mapping[str, set[str]]:
    """What each file imports. Read when a test needs it: every process of pytest imports this file."""
    return {name: imports(path, set(SOURCE_FILES)) for name, path in SOURCE_FILES.items()}


def test_a_file_imports_only_from_its_own_floor_or_below() -> None:
    for module in SOURCE_FILES.keys() - {"use", "tune"}:
        above = [
            name for name in import_graph()[module] if name in SOURCE_FILES and floor(name) > floor(module)
        ]
        assert not above, f"{module} imports upward: {above}"


@pytest.mark.parametrize("prefix", NEVER)
def test_a_package_does_not_import_what_is_forbidden_to_it(prefix: str) -> None:
    modules = [module for module in import_graph() if is_within(module, prefix)]
    ours = {name for name in NEVER[prefix] if (ROOT / name.partition(".")[0]).exists()}
    assert modules and ours <= SOURCE_FILES.keys(), "outdated names: nothing would be forbidden"
    for module in modules:
        known = {
            name for name in import_graph()[module] for banned in NEVER[prefix] if is_within(name, banned)
        }
        assert not known - {"inference.model.batch"}, f"{module} knows {known}"


def find_cycle(graph: Mapping[str, set[str]]) -> str:
    """The first cycle found, as a chain of names; empty if there is none."""
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> str:
        if name in path:
            return " → ".join((*path[path.index(name) :], name))
        if name in done:
            return ""
        cycle = next(filter(None, (visit(other, (*path, name)) for other in sorted(graph[name]))), "")
        done.add(name)
        return cycle

    return next(filter(None, (visit(name, ()) for name in sorted(graph))), "")


def package_graph(folder: str) -> dict[str, set[str]]:
    """The files and packages directly in a folder, each package as one node, and what each imports of
    them.
    """

    def child(module: str) -> str:
        return module.removeprefix(folder + ".").split(".")[0] if is_within(module, folder) else ""

    graph: dict[str, set[str]] = {child(module): set() for module in SOURCE_FILES if module != folder}
    for module, names in import_graph().items():
        if module != folder:
            graph[child(module)] |= {child(name) for name in names if name in SOURCE_FILES and name != folder}
    del graph[""]
    return {name: others - {name, ""} for name, others in graph.items()}


def test_imports_have_no_cycle() -> None:
    assert not find_cycle({name: names & set(SOURCE_FILES) for name, names in import_graph().items()})


@pytest.mark.parametrize("folder", FOLDERS)
def test_packages_have_no_cycle(folder: str) -> None:
    assert not find_cycle(package_graph(folder))


def test_a_file_is_short_enough() -> None:
    for module, path in SOURCE_FILES.items():
        lines = len(path.read_text().splitlines())
        assert lines <= LIMIT, f"{module} has {lines} lines: split it by idea"


def test_what_tests_share_is_in_no_test_module() -> None:
    """A test module can be moved or removed without another one."""
    imported = re.compile(r"^from tests\b.*\btest_\w+", re.MULTILINE)
    files = (ROOT / "tests").rglob("*.py")
    lines = {path.name: imported.findall(path.read_text()) for path in files}
    assert not {name: each for name, each in lines.items() if each}


def imported_with(modules: Iterable[str]) -> set[str]:
    """The modules and everything that they import: directly, through others, or as the package of one."""
    imported, waiting = set[str](), [*modules]
    while waiting:
        name = waiting.pop()
        if name and name not in imported:
            imported.add(name)
            waiting += [*import_graph().get(name, ()), name.rpartition(".")[0]]
    return imported


def test_the_memory_planner_the_hub_and_the_loader_need_no_engine() -> None:
    """A process that plans, downloads or loads a model is not always a server."""
    packages = ("checks.memory", "hub", "inference.model.load.loader")
    modules = {name for name in SOURCE_FILES if any(is_within(name, package) for package in packages)}
    assert modules >= {"checks.memory.plan", "hub.resolve", "inference.model.load.loader"}
    imported = imported_with(modules)
    assert "inference.finding" in imported
    assert not [name for name in imported if any(is_within(name, package) for package in SERVER)]


def test_slow_libraries_are_not_loaded_before_the_hub_look_up_starts() -> None:
    imported = imported_with(["hub.resolve"])
    assert "huggingface_hub" in imported
    assert not [name for name in imported if is_within(name, "transformers")]


def test_text_files_are_read_and_written_as_utf_8_on_every_system() -> None:
    unnamed = re.compile(r"\.read_text\(\)|\.write_text\(.*(?<!utf-8\")\)$", re.MULTILINE)
    assert [name for name, path in SOURCE_FILES.items() if unnamed.search(path.read_text("utf-8"))] == []
