"""`adapter` in a body of Neodim's."""

from tests.api.neodim.conftest import body, client
from tests.api.neodim.tokenizers import ScriptedBackend
from tests.fakes.fake_backend import FakeAdapters


def test_an_adapter_is_named_in_the_body() -> None:
    server = ScriptedBackend("words", [" I", " saw", " a", " cat", " ran", " away", ".", "."])
    server.lora = FakeAdapters("poet")
    for fields in ({"adapter": "poet"}, {"adapter": None}, {}):
        assert client(server).post("/generate", json=body(**fields)).status_code == 200
    assert [request.adapter for request in server.requests] == ["poet", None, None]
    reply = client(server).post("/generate", json=body(adapter="cook"))
    message = "ValueError: adapter must be an adapter or model of GET /v1/models, got 'cook'"
    assert (reply.status_code, reply.get_json()) == (400, {"error": message})
    assert len(server.requests) == 3
