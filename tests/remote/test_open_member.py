"""A model is opened at one server: what the log says of the server's address."""

import logging

import pytest

from inference.remote.detect import Detected
from inference.remote.open_member import open_member
from settings.model_list import parse_entry
from settings.remote_model import RemoteModel


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
