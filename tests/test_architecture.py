"""The floors hold: imports go down only, nothing forbidden, no circle, no file too long."""

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIMIT = 300
ROOT_MODULES = ("main", "ahead", "guess", "launch", "examine", "wiring", "logs", "packages", "config", "use")

# The longest matching prefix decides.
FLOORS = {
    "main": 5,
    "api": 4,
    "inference": 0,
    "inference.opening": 4,
    "selftest": 4,
    "inference.local": 3,
    "inference.remote": 3,
    "inference.engine": 2,
    "inference.text": 2,
    "inference.constrain": 2,
    "inference.backend": 1,
    "inference.metrics": 1,
    "inference.model": 1,
    "inference.types": 0,
    "inference.errors": 0,
    "inference.sampling": 0,
    "checks": 2,
    "settings": 1,
    "logs": 0,
    "packages": 0,
    "guess": 1,
    "ahead": 4,
    "wiring": 5,
    "launch": 5,
    "examine": 5,
    "config": 0,
}
NEVER = {
    "api": {"torch", "transformers", "inference.engine", "inference.model", "inference.local"},
    "inference.engine": {"transformers", "flask", "tokenizers", "inference.text"},
    "inference.model": {"inference.engine", "flask"},
    "inference.native": {"inference.model", "inference.engine", "transformers", "flask"},
    "inference.text": {"torch", "flask", "inference.engine", "inference.model"},
    "inference.types": {"torch", "flask", "transformers"},
    "inference.backend": {"torch", "flask", "transformers"},
    "checks": {"inference.engine", "flask"},
    "settings": {"torch", "flask", "inference", "api", "checks"},
}


def sources() -> dict[str, Path]:
    files = [
        p
        for top in ("api", "inference", "checks", "settings", "selftest")
        for p in (ROOT / top).rglob("*.py")
    ]
    files += [ROOT / f"{name}.py" for name in ROOT_MODULES if (ROOT / f"{name}.py").exists()]
    return {module_name(path): path for path in files}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, known: set[str]) -> set[str]:
    """Modules that a file names; `from a import b` counts as a.b where that is a module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {
                full if (full := f"{node.module}.{alias.name}") in known else node.module
                for alias in node.names
            }
    return found


def within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


def floor(module: str) -> int:
    matches = [prefix for prefix in FLOORS if within(module, prefix)]
    assert matches, f"{module} has no floor: add it to FLOORS"
    return FLOORS[max(matches, key=len)]


SOURCES = sources()
GRAPH = {name: imports(path, set(SOURCES)) for name, path in SOURCES.items()}
FOLDERS = [name for name, path in SOURCES.items() if path.name == "__init__.py"]


@pytest.mark.parametrize("module", SOURCES)
def test_a_file_imports_only_from_its_own_floor_or_below(module: str) -> None:
    if module == "use":
        return
    above = [name for name in GRAPH[module] if name in SOURCES and floor(name) > floor(module)]
    assert not above, f"{module} imports upward: {above}"


@pytest.mark.parametrize("prefix", NEVER)
def test_a_floor_does_not_know_what_it_must_not(prefix: str) -> None:
    for module, names in GRAPH.items():
        if within(module, prefix):
            known = {name for name in names for banned in NEVER[prefix] if within(name, banned)}
            assert not known - {"inference.model.batch"}, f"{module} knows {known}"


def circle(graph: Mapping[str, set[str]]) -> str:
    """The first one found, as a chain of names; empty where there is none."""
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> str:
        if name in path:
            return " → ".join((*path[path.index(name) :], name))
        if name in done:
            return ""
        found = next(filter(None, (visit(other, (*path, name)) for other in sorted(graph[name]))), "")
        done.add(name)
        return found

    return next(filter(None, (visit(name, ()) for name in sorted(graph))), "")


def inside(folder: str) -> dict[str, set[str]]:
    """The files and packages right below a folder, a package taken as one, and what each imports of them."""

    def child(module: str) -> str:
        return module.removeprefix(folder + ".").split(".")[0] if within(module, folder) else ""

    graph: dict[str, set[str]] = {child(module): set() for module in SOURCES if module != folder}
    for module, names in GRAPH.items():
        if module != folder:
            graph[child(module)] |= {child(name) for name in names if name in SOURCES and name != folder}
    del graph[""]
    return {name: others - {name, ""} for name, others in graph.items()}


def test_imports_have_no_circle() -> None:
    assert not circle({name: names & set(SOURCES) for name, names in GRAPH.items()})


@pytest.mark.parametrize("folder", FOLDERS)
def test_packages_have_no_circle(folder: str) -> None:
    assert not circle(inside(folder))


@pytest.mark.parametrize("module", SOURCES)
def test_a_file_can_be_read_in_one_sitting(module: str) -> None:
    lines = len(SOURCES[module].read_text().splitlines())
    assert lines <= LIMIT, f"{module} has {lines} lines: split it by idea"


@pytest.mark.parametrize(
    "memory",
    (
        ("engine/rows", "model/slots/runner"),
        ("engine/pages", "model/packed/line", "model/packed/attention", "model/packed/runner"),
    ),
)
def test_the_hot_path_can_be_read_in_one_sitting(memory: tuple[str, ...]) -> None:
    always = [f"engine/{name}" for name in ("engine", "scheduler", "sequence", "pack", "sampler")]
    files = [ROOT / "inference" / f"{name}.py" for name in (*always, *memory)]
    assert sum(len(path.read_text().splitlines()) for path in files) < 1400
