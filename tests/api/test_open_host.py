"""Which hosts are open to other machines."""

import pytest

from api.open_host import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST"])
def test_a_loopback_host_serves_this_machine_only(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "::1234", "127.example.org", "localhost.example.org", "10.0.0.1", ""]
)
def test_any_other_host_is_open_to_other_machines(host: str) -> None:
    assert not is_loopback(host)
