"""The order in which scopes of tests start."""

from dataclasses import dataclass
from typing import Any

from tests.xdist_scopes import scope_of, sort_long_scopes_first


@dataclass
class Item:
    nodeid: str
    slow: bool = False

    def get_closest_marker(self, name: str) -> bool:
        return self.slow and name == "slow"


def test_files_with_slow_tests_start_first_and_keep_their_order() -> None:
    items: list[Any] = [
        Item("tests/a.py::one"),
        Item("tests/b.py::two"),
        Item("tests/b.py::one"),
        Item("tests/c.py::one", slow=True),
        Item("tests/live/a.py::one", slow=True),
        Item("tests/d.py::one"),
        Item("tests/live/b.py::one", slow=True),
    ]
    sort_long_scopes_first(items)
    assert [item.nodeid.removeprefix("tests/") for item in items] == [
        "live/a.py::one",
        "live/b.py::one",
        "c.py::one",
        "b.py::two",
        "b.py::one",
        "a.py::one",
        "d.py::one",
    ]


def test_tests_that_share_a_server_or_a_browser_are_one_scope() -> None:
    assert scope_of("tests/live/test_load.py::test_one") == scope_of("tests/live/test_answers.py::test_two")
    assert scope_of("tests/live/pages/test_playground.py::test_one") == "tests/live/pages/"
    assert scope_of("tests/lora/test_sum.py::test_one[a::b]") == "tests/lora/test_sum.py"
