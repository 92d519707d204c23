"""Which tests run: the fast ones, and what is asked for besides; and where, if processes share them."""

import pytest

OPT_IN = ("slow", "gpu", "hub")


def pytest_addoption(parser: pytest.Parser) -> None:
    for mark in OPT_IN:
        parser.addoption(f"--{mark}", action="store_true", help=f"run the tests marked {mark}, too")


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
    """`--dist loadfile` goes by places; without pytest-xdist nobody asks."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.places import Places

    return Places(config, log)
