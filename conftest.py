"""Selects and orders the tests that run: the fast ones, marks of the command line, those of this system."""

import gc
import os
import sys
from collections.abc import Iterator

import pytest

from tests.xdist_scopes import scope_of, sort_long_scopes_first

OPT_IN = ("slow", "gpu", "hub")
SYSTEMS = {"linux": sys.platform == "linux", "posix": os.name == "posix", "windows": os.name == "nt"}
GC_THRESHOLD = 10_000  # new objects between two collections; 700 by default


def pytest_addoption(parser: pytest.Parser) -> None:
    for mark in OPT_IN:
        parser.addoption(f"--{mark}", action="store_true", help=f"run the tests marked {mark} as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for mark in OPT_IN:
        if config.getoption(f"--{mark}"):
            continue
        skip = pytest.mark.skip(reason=f"needs --{mark}")
        for item in items:
            if item.get_closest_marker(mark):
                item.add_marker(skip)
    for item in items:
        for mark in item.iter_markers("system"):
            (name,) = mark.args
            item.add_marker(pytest.mark.skipif(not SYSTEMS[name], reason=f"needs {name}"))
    sort_long_scopes_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Exempt what is imported and collected from garbage collection, and collect seldom.

    It lives as long as the process; searching what the tests leave took up to half of their time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """With `--dist loadfile`, distribute the scopes of tests.xdist_scopes. Called only by pytest-xdist."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scopes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    return Scopes(config, log)
