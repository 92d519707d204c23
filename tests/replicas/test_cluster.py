"""The connection to a cluster without one, and what is read of Serve's reports."""

import socket
import sys
from types import SimpleNamespace

import pytest

from inference.replicas.cluster import NoCluster, RayCluster, check_reachable, message_lines, scaling_options
from settings.replicas import ReplicaSpec


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NoCluster, match="the package ray is not installed") as error:
        RayCluster()
    assert error.value.fix == 'pip install "ray[serve]", on every node'


def test_an_address_where_nothing_listens_is_known_at_once() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(OSError, match="refused"):
            check_reachable(f"127.0.0.1:{port}")
    check_reachable("auto")


def test_a_fixed_number_does_not_follow_the_load() -> None:
    assert scaling_options(ReplicaSpec(3, 3)) == {"num_replicas": 3}


def test_the_reason_of_a_failed_start_is_the_message_lines() -> None:
    deployment = SimpleNamespace(message="Traceback …\nRuntimeError: demo needs 9 GB\n")
    application = SimpleNamespace(deployments={"replica": deployment}, message="The deployment failed.")
    assert message_lines(application)[-1] == "RuntimeError: demo needs 9 GB"
