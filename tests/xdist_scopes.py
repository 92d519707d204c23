"""How tests are distributed over processes: the tests of one scope run in one process, in order.

A file is a scope, so that its fixtures are made once. A folder whose tests share a server and put load on it,
or share a browser, is one too.
"""

from collections import Counter

import pytest

FOLDERS = ("tests/live/pages/", "tests/live/", "tests/clients/")  # a folder precedes the one that contains it


def scope_of(nodeid: str) -> str:
    """The scope of a test: its folder or its file."""
    file = nodeid.partition("::")[0]
    return next((folder for folder in FOLDERS if file.startswith(folder)), file)


def sort_long_scopes_first(items: list[pytest.Item]) -> None:
    """Sort the scopes by their number of slow tests, then of tests: the last to start would be waited for."""
    slow = Counter(scope_of(item.nodeid) for item in items if item.get_closest_marker("slow"))
    tests = Counter(scope_of(item.nodeid) for item in items)

    def rank(item: pytest.Item) -> tuple[int, int, str]:
        scope = scope_of(item.nodeid)
        return -slow[scope], -tests[scope], scope

    items.sort(key=rank)
