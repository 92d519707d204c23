"""The id of a start is in every response, and another one at each start."""

from api import create_app
from inference.remote.answer_settings import START_HEADER
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models

CHAT = {"messages": [{"role": "user", "content": "hi"}], "stream": True}


def test_all_responses_of_a_start_have_its_id() -> None:
    clients = [create_app(make_models(FakeBackend()), ServerSettings()).test_client() for _ in range(2)]
    start_ids = []
    for client in clients:
        index = client.get("/")
        responses = [index, client.post("/v1/chat/completions", json=CHAT), client.get("/unknown")]
        assert [response.status_code for response in responses] == [200, 200, 404]
        (start_id,) = {response.headers[START_HEADER] for response in responses}
        assert index.json is not None and index.json["start_id"] == start_id
        start_ids.append(start_id)
    assert start_ids[0] != start_ids[1]
