"""Ports that cannot be used, a limit of open files that is too low, and hosts that are open to others."""

import pytest

from checks.resources.network import check_open_files, check_open_host, check_port, is_loopback


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


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST"])
def test_a_loopback_host_serves_this_machine_only(host: str) -> None:
    assert is_loopback(host) and check_open_host(host, has_keys=False, is_allowed=False) == []


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "::1234", "127.example.org", "localhost.example.org", "10.0.0.1", ""]
)
def test_any_other_host_needs_keys_or_the_setting_that_allows_it(host: str) -> None:
    assert check_open_host(host, has_keys=True, is_allowed=False) == []
    (refused,) = check_open_host(host, has_keys=False, is_allowed=False)
    assert not refused.ok and all(name in refused.fix for name in ("API_KEYS", "ALLOW_OPEN_HOST", "HOST ="))
    (allowed,) = check_open_host(host, has_keys=False, is_allowed=True)
    assert allowed.ok and "API_KEYS" in allowed.fix
