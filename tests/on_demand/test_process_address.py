"""The process of a model listens where only its user, or only who has its key, reaches it."""

from pathlib import Path

import pytest

from inference.on_demand.process_address import at_address, private_address
from inference.process import listen_address
from settings.model_list import parse_entry
from settings.remote_model import RemoteModel
from tests.settings.parsed_settings import parsed_settings


def model() -> RemoteModel:
    entry = parse_entry(1, {"base_model": "m", "inference_server": "vllm:localhost:1"})
    assert isinstance(entry, RemoteModel)
    return entry


@pytest.mark.system("posix")
def test_a_process_listens_on_a_socket_in_a_private_folder() -> None:
    assert private_address(Path("/tmp/hearth/1.sock")) == ("/tmp/hearth/1.sock", 0)
    assert at_address(model(), parsed_settings(HOST="/tmp/hearth/1.sock")).socket == "/tmp/hearth/1.sock"


def test_where_a_socket_cannot_be_it_listens_on_a_port_that_needs_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long_path = Path("/" + 108 * "x") / "1.sock"
    host, port = private_address(long_path)
    assert host == "127.0.0.1" and port
    monkeypatch.setattr(listen_address.sys, "platform", "win32")
    assert private_address(Path("1.sock"))[1]
    reached = at_address(model(), parsed_settings(HOST=host, PORT=port, API_KEYS="secret"))
    assert (reached.socket, reached.server.url) == ("", f"http://127.0.0.1:{port}")
    assert dict(reached.server.headers) == {"Authorization": "Bearer secret"}


def test_an_address_with_colons_is_bracketed() -> None:
    reached = at_address(model(), parsed_settings(HOST="::1", PORT=5, API_KEYS="secret"))
    assert reached.server.url == "http://[::1]:5"
