"""Selects the tests: the fast ones, and the opt-in marks named on the command line."""

import pytest

OPT_IN = ("slow", "gpu", "hub")


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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Distribute `--dist loadfile` with tests.xdist_scopes. Called only if pytest-xdist is installed."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.xdist_scopes import Places

    return Places(config, log)
