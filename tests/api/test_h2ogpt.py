"""h2oGPT in front of this server: its probes of a TGI server, its requests, and system_info_dict."""

import json

import pytest
from flask.testing import FlaskClient

from api import create_app
from inference.backend_info import BackendLoad, Device
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models

# What text-generation's client sends for h2oGPT's `generate('What?', max_new_tokens=1)`, nulls included.
PROBE = {
    "best_of": None,
    "decoder_input_details": False,
    "details": True,
    "do_sample": False,
    "max_new_tokens": 1,
    "repetition_penalty": None,
    "return_full_text": False,
    "seed": None,
    "stop": [],
    "temperature": None,
    "top_k": None,
    "top_p": None,
    "truncate": None,
    "typical_p": None,
    "watermark": False,
}
STOPS = ["\n<human>:", "\n<bot>:", "<human>:", "<bot>:", "<bot>:\n"]  # of the prompt type human_bot, and one


class OneGpu(FakeBackend):
    def current_load(self) -> BackendLoad:
        return BackendLoad(devices=(Device("gpu", 100, 25, 70, 60),))


@pytest.fixture
def client() -> FlaskClient:
    settings = ServerSettings(version="1.2", api_keys=("secret",), max_stop_sequences=6)
    client = create_app(make_models(OneGpu()), settings).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = "Bearer secret"
    return client


def test_the_probes_find_a_server_of_tgi(client: FlaskClient) -> None:
    """gradio is looked for at /config, then in the page at /."""
    assert client.get("/config").status_code == 404
    index = client.get("/")
    assert index.status_code == 200 and "gradio_config" not in index.text
    (result,) = client.post("/", json={"inputs": "What?", "parameters": PROBE, "stream": False}).get_json()
    assert result["generated_text"] == "Hello world" and result["details"]["finish_reason"]


def test_the_probe_of_a_server_of_vllm_has_one_model(client: FlaskClient) -> None:
    assert [card["id"] for card in client.get("/v1/models").get_json()["data"]] == ["fake/model"]


def test_a_turn_of_a_chat_streams_text(client: FlaskClient) -> None:
    changes = {"do_sample": True, "temperature": 0.01, "top_k": 40, "top_p": 0.999, "stop": STOPS}
    body = {"inputs": "<human>: hi\n<bot>:", "parameters": PROBE | changes, "stream": True}
    reply = client.post("/", json=body)
    events = [json.loads(line[5:]) for line in reply.text.splitlines() if line]
    assert "".join(each["token"]["text"] for each in events if not each["token"]["special"]) == "Hello world"


def test_system_info_dict_has_settings_model_and_machine(client: FlaskClient) -> None:
    info = client.get("/system_info_dict").get_json()
    assert (info["base_model"], info["max_seq_len"], info["hash"]) == ("fake/model", 128, "1.2")
    assert (info["GPU_M/MiB_gpu0"], info["max_stop_sequences"]) == (0.25, 6)
    assert "secret" not in str(info)
    called = client.post("/run/system_info_dict", json={"data": ["password"]}).get_json()
    assert json.loads(called["data"][0]) == info


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/system_info_dict"), ("POST", "/run/system_info_dict")]
)
def test_system_info_dict_needs_the_key(method: str, path: str, client: FlaskClient) -> None:
    assert client.open(path, method=method, json={}, headers={"Authorization": ""}).status_code == 401
