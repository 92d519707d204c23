"""Ports that cannot be used, and a limit of open files that is too low."""

import pytest

from checks.network import check_open_files, check_port


@pytest.mark.parametrize(
    ("port_error", "word"),
    [("Address already in use", "PORT"), ("Permission denied", "1024"), ("what", "HOST")],
)
def test_a_port_that_cannot_be_used_says_what_to_set(port_error: str, word: str) -> None:
    finding = check_port("127.0.0.1", 80, port_error)
    assert not finding.ok and word in finding.fix


def test_each_concurrent_request_needs_open_files() -> None:
    assert check_open_files(128, 512).ok
    finding = check_open_files(128, 511)
    assert not finding.ok
    assert finding.fix == "ulimit -n 512 before the start, or MAX_CONCURRENT_REQUESTS = 127"
    assert check_open_files(127, 511).ok
