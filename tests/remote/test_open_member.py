"""A model is opened at one server: what the log says of the server's address."""

import logging
import socket

import pytest

from inference.remote.detect import Detected
from inference.remote.failures import unreachable
from inference.remote.http_client import describe
from inference.remote.open_member import CannotOpen, open_member
from settings.model_list import parse_entry
from settings.remote_model import RemoteModel


class UnknownHost(Exception):
    """As aiohttp raises it."""

    os_error = socket.gaierror(socket.EAI_NONAME, "unknown")


def test_a_server_without_a_model_of_a_name_is_refused_if_it_is_not_there() -> None:
    model = parse_entry(1, {"members": ["vllm_chat:127.0.0.1:9"]})
    assert isinstance(model, RemoteModel)
    problem = unreachable(model.name, describe(UnknownHost())).error.message
    with pytest.raises(CannotOpen) as refused:
        open_member(model, Detected("vllm", problem=problem))
    assert refused.value.message == (
        "the server of INFERENCE_SERVER does not respond: the server cannot be reached: the name of its "
        "host is unknown: start it, or correct its address"
    )


@pytest.mark.parametrize(
    ("address", "is_warned_of"),
    [
        ("http://api.acme.com/v1:key", True),
        ("http://93.184.215.14/v1:key", True),
        ("http://api.acme.com/v1", False),
        ("https://api.acme.com/v1:key", False),
        ("http://10.0.0.5:8000/v1:key", False),
        ("http://[::1]:8000/v1:key", False),
        ("http://gpu-box:8000/v1:key", False),
        ("http://vllm.models.svc:8000/v1:key", False),
    ],
)
def test_a_key_that_goes_in_clear_to_a_public_host_is_warned_of(
    address: str, is_warned_of: bool, caplog: pytest.LogCaptureFixture
) -> None:
    model = parse_entry(1, {"base_model": "m", "inference_server": f"vllm_chat:{address}"})
    assert isinstance(model, RemoteModel)
    with caplog.at_level(logging.WARNING):
        open_member(model, Detected("vllm", ("m",)))
    assert ("key_in_clear" in caplog.text) == is_warned_of and "acme" not in caplog.text
