"""The public name of a model, and the hosts that are open to other machines."""

import pytest

from startup import is_loopback, public_name


def test_the_path_of_a_folder_is_not_public() -> None:
    assert (public_name("/srv/models/mine"), public_name("acme/tiny")) == ("mine", "acme/tiny")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST"])
def test_a_loopback_host_serves_this_machine_only(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "::1234", "127.example.org", "localhost.example.org", "10.0.0.1", ""]
)
def test_any_other_host_is_open_to_other_machines(host: str) -> None:
    assert not is_loopback(host)
