"""Responses in the background: they run without the client, which polls, cancels and deletes them."""

import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.services import Services
from api.store.store import Store
from inference.errors import BadRequest, Unavailable
from settings.groups import ServerSettings
from tests.api.openai.app_requests import RESPONSES, body_for, get_response
from tests.fakes.fake_backend import FakeBackend, make_models, say
from tests.timeouts import TIMEOUT_S

SLOW = say("a", "b", pause_s=10 * TIMEOUT_S)


def begin(client: FlaskClient, **fields: Any) -> dict[str, Any]:
    response: dict[str, Any] = get_response(client, RESPONSES, background=True, **fields)
    return response


def poll(client: FlaskClient, id: str, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        response: dict[str, Any] = client.get(f"{RESPONSES}/{id}").get_json()
        if until(response):
            return response
        time.sleep(0.005)
    raise AssertionError(response)


def has_ended(response: dict[str, Any]) -> bool:
    return response["status"] not in ("queued", "in_progress")


def test_a_response_in_the_background_is_polled(stored_client: FlaskClient, backend: FakeBackend) -> None:
    has_begun, may_end = threading.Event(), threading.Event()
    started, hello, *rest = say("Hello", " world")
    backend.script = [has_begun, started, hello, may_end, *rest]
    first = begin(stored_client)
    assert (first["status"], first["background"], first["output"]) == ("queued", True, [])
    has_begun.set()
    growing = poll(stored_client, first["id"], lambda response: bool(response["output"]))
    assert growing["status"] == "in_progress"
    may_end.set()
    response = poll(stored_client, first["id"], has_ended)
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "Hello world"


def test_it_is_stored_with_its_items(stored_client: FlaskClient, backend: FakeBackend) -> None:
    response = poll(stored_client, begin(stored_client, input="one")["id"], has_ended)
    listed = stored_client.get(f"{RESPONSES}/{response['id']}/input_items").get_json()["data"]
    assert listed[0]["content"][0]["text"] == "one"
    get_response(stored_client, RESPONSES, input="two", previous_response_id=response["id"])
    assert [message.role for message in backend.requests[-1].prompt] == [  # type: ignore[union-attr]
        "user",
        "assistant",
        "user",
    ]


def test_it_extends_its_conversation(stored_client: FlaskClient) -> None:
    id = stored_client.post("/v1/conversations", json={}).get_json()["id"]
    poll(stored_client, begin(stored_client, conversation=id)["id"], has_ended)

    def roles() -> list[str]:
        items = stored_client.get(f"/v1/conversations/{id}/items?order=asc").get_json()["data"]
        return [item["role"] for item in items]

    end = time.monotonic() + TIMEOUT_S
    while len(roles()) < 2 and time.monotonic() < end:
        time.sleep(0.005)
    assert roles() == ["user", "assistant"]


def test_it_is_cancelled(stored_client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = SLOW
    id = begin(stored_client)["id"]
    cancelled = stored_client.post(f"{RESPONSES}/{id}/cancel")
    assert (cancelled.status_code, cancelled.get_json()["status"]) == (200, "cancelled")
    assert poll(stored_client, id, lambda _: not backend.open_streams)["status"] == "cancelled"
    assert stored_client.post(f"{RESPONSES}/{id}/cancel").get_json()["status"] == "cancelled"


def test_the_message_of_a_cancelled_one_is_incomplete(
    stored_client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = [*say("Hello")[:2], *SLOW[1:]]
    id = begin(stored_client)["id"]
    poll(stored_client, id, lambda response: bool(response["output"]))
    stored_client.post(f"{RESPONSES}/{id}/cancel")
    cancelled = poll(stored_client, id, lambda _: not backend.open_streams)
    (item,) = cancelled["output"]
    assert (cancelled["status"], item["status"]) == ("cancelled", "incomplete")


def test_a_completed_one_stays_completed_when_it_is_cancelled(stored_client: FlaskClient) -> None:
    id = begin(stored_client)["id"]
    poll(stored_client, id, has_ended)
    assert stored_client.post(f"{RESPONSES}/{id}/cancel").get_json()["status"] == "completed"


def test_only_a_response_in_the_background_can_be_cancelled(stored_client: FlaskClient) -> None:
    id = get_response(stored_client, RESPONSES)["id"]
    response = stored_client.post(f"{RESPONSES}/{id}/cancel")
    assert response.status_code == 400
    assert "Cannot cancel a synchronous response" in response.get_json()["error"]["message"]


def test_deleting_it_ends_it(stored_client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = SLOW
    id = begin(stored_client)["id"]
    assert stored_client.delete(f"{RESPONSES}/{id}").get_json()["deleted"] is True
    end = time.monotonic() + TIMEOUT_S
    while stored_client.get(f"{RESPONSES}/{id}").status_code == 200 and time.monotonic() < end:
        time.sleep(0.005)
    assert stored_client.get(f"{RESPONSES}/{id}").status_code == 404 and not backend.open_streams


def test_an_error_fails_it(stored_client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = [*say("a")[:-1], 0.02, Unavailable("stopping")]
    response = poll(stored_client, begin(stored_client)["id"], has_ended)
    assert response["status"] == "failed"
    assert response["error"] == {"code": "server_error", "message": "stopping"}
    assert response["store"] is True


def test_a_stream_without_an_end_fails_it(stored_client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = say("a")[:-1]
    response = poll(stored_client, begin(stored_client)["id"], has_ended)
    assert (response["status"], response["error"]["code"]) == ("failed", "server_error")


def test_its_end_is_shown_although_the_disk_is_full(
    stored_client: FlaskClient, backend: FakeBackend, store: Store
) -> None:
    def fill_disk(connection: sqlite3.Connection) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()

    disk_is_full = threading.Event()
    backend.script = [disk_is_full, *say("x" * 100_000)]
    id = begin(stored_client)["id"]
    store.run(fill_disk)
    disk_is_full.set()
    assert poll(stored_client, id, has_ended)["status"] == "completed"
    assert stored_client.get(f"{RESPONSES}/{id}").get_json()["status"] == "completed"
    assert stored_client.delete(f"{RESPONSES}/{id}").status_code == 200
    assert stored_client.get(f"{RESPONSES}/{id}").status_code == 404


def test_a_refused_request_leaves_nothing(stored_client: FlaskClient, backend: FakeBackend) -> None:
    backend.error = BadRequest("input", "is wrong")
    response = stored_client.post(RESPONSES, json=body_for(RESPONSES, background=True))
    assert response.status_code == 400
    assert stored_client.get(RESPONSES).get_json()["data"] == []


def test_it_holds_its_permit_until_it_ends(backend: FakeBackend, store: Store) -> None:
    backend.script = SLOW
    app = create_app(
        make_models(backend), ServerSettings(max_concurrent_requests=1), services=Services(store=store)
    )
    client = app.test_client()
    id = begin(client)["id"]
    assert client.post(RESPONSES, json=body_for(RESPONSES)).status_code == 429
    client.post(f"{RESPONSES}/{id}/cancel")
    backend.script = say("free")
    end = time.monotonic() + TIMEOUT_S
    while client.post(RESPONSES, json=body_for(RESPONSES)).status_code == 429 and time.monotonic() < end:
        time.sleep(0.005)
    assert client.post(RESPONSES, json=body_for(RESPONSES)).status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"), [({"stream": True}, "stream"), ({"store": False}, "background")]
)
def test_what_cannot_be_polled_is_refused(
    stored_client: FlaskClient, fields: dict[str, Any], param: str
) -> None:
    response = stored_client.post(RESPONSES, json=body_for(RESPONSES, background=True, **fields))
    assert (response.status_code, response.get_json()["error"]["param"]) == (400, param)


def test_a_server_without_a_store_refuses_the_background(client: FlaskClient) -> None:
    response = client.post(RESPONSES, json=body_for(RESPONSES, background=True))
    assert response.status_code == 400
    assert "RESPONSES_STORE" in response.get_json()["error"]["message"]
