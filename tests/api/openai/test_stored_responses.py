"""Stored responses: what is stored, and the routes that show, list and delete it."""

import sqlite3
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from api import create_app
from api.services import Services
from api.store.access import NOTHING_STORED
from api.store.store import Store
from inference.errors import Unavailable
from settings.groups import ServerSettings
from tests.api.openai.app_requests import RESPONSES, USER, body_for, events, get_response, refusal
from tests.fakes.fake_backend import FakeBackend, make_models, say


def show(client: FlaskClient, id: str, path: str = "", **query: Any) -> Any:
    response = client.get(f"{RESPONSES}/{id}{path}", query_string=query)
    assert response.status_code == 200, response.text
    return response.get_json()


def test_a_response_is_stored_as_it_was_answered(stored_client: FlaskClient) -> None:
    response = get_response(stored_client, RESPONSES, metadata={"a": "b"})
    assert response["store"] is True
    assert show(stored_client, response["id"]) == response


def test_a_streamed_response_is_stored_as_its_last_event_shows_it(stored_client: FlaskClient) -> None:
    response = events(stored_client)[-1]["response"]
    assert show(stored_client, response["id"]) == response


def test_store_false_stores_nothing(stored_client: FlaskClient) -> None:
    response = get_response(stored_client, RESPONSES, store=False)
    assert response["store"] is False
    missing = stored_client.get(f"{RESPONSES}/{response['id']}")
    refusal(missing, 404, f"Response with id '{response['id']}' not found.", "NotFoundError", "not_found")


def test_a_server_without_a_store_says_that_it_stores_nothing(client: FlaskClient) -> None:
    response = get_response(client, RESPONSES)
    assert response["store"] is False
    missing = client.get(f"{RESPONSES}/{response['id']}")
    refusal(missing, 404, NOTHING_STORED, "NotFoundError", "not_found")


def test_an_answer_is_given_although_the_disk_is_full(stored_client: FlaskClient, store: Store) -> None:
    def fill_disk(connection: sqlite3.Connection) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()

    store.run(fill_disk)
    long_input = "x" * 100_000
    response = get_response(stored_client, RESPONSES, input=long_input)
    assert (response["status"], response["store"]) == ("completed", False)
    *_, last = events(stored_client, input=long_input)
    assert (last["type"], last["response"]["store"]) == ("response.completed", False)


def test_a_response_that_fails_is_not_stored(stored_client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = [*say("a")[:-1], Unavailable("stopping")]
    response = events(stored_client)[-1]["response"]
    assert (response["status"], response["store"]) == ("failed", False)
    assert stored_client.get(f"{RESPONSES}/{response['id']}").status_code == 404


def test_an_incomplete_response_is_stored(stored_client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = say("a", reason="length")
    response = get_response(stored_client, RESPONSES)
    assert show(stored_client, response["id"])["status"] == response["status"] == "incomplete"


def test_a_response_is_deleted(stored_client: FlaskClient) -> None:
    id = get_response(stored_client, RESPONSES)["id"]
    deleted = stored_client.delete(f"{RESPONSES}/{id}").get_json()
    assert deleted == {"id": id, "object": "response", "deleted": True}
    assert stored_client.get(f"{RESPONSES}/{id}").status_code == 404
    assert stored_client.delete(f"{RESPONSES}/{id}").status_code == 404


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("hi", {"role": "user", "type": "message", "content": [{"type": "input_text", "text": "hi"}]}),
        (
            [{"role": "assistant", "content": "hi"}],
            {"type": "message", "content": [{"type": "output_text", "text": "hi", "annotations": []}]},
        ),
        (
            [
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "x"}],
                    "id": "m",
                }
            ],
            {"id": "m", "content": [{"type": "input_text", "text": "x"}], "status": "completed"},
        ),
        (
            [{"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}", "id": 7}],
            {"type": "function_call", "arguments": "{}", "status": "completed"},
        ),
        ([{"type": "reasoning", "summary": []}, USER], {"type": "reasoning", "summary": []}),
        ([{"type": "web_search_call", "action": {}}, USER], {"type": "web_search_call", "action": {}}),
    ],
)
def test_the_input_items_are_listed_with_ids(stored_client: FlaskClient, sent: Any, stored: Any) -> None:
    id = get_response(stored_client, RESPONSES, input=sent)["id"]
    items = show(stored_client, id, "/input_items")
    item = items["data"][-1]
    assert item | stored == item
    assert isinstance(item["id"], str)
    assert (items["object"], items["has_more"]) == ("list", False)
    assert (items["first_id"], items["last_id"]) == (items["data"][0]["id"], item["id"])


def test_input_items_come_in_pages(stored_client: FlaskClient) -> None:
    sent = [{"role": "user", "content": str(number), "id": f"m{number}"} for number in range(5)]
    id = get_response(stored_client, RESPONSES, input=sent)["id"]

    def page(**query: Any) -> tuple[list[str], bool]:
        listed = show(stored_client, id, "/input_items", **query)
        return [item["id"] for item in listed["data"]], listed["has_more"]

    assert page() == (["m4", "m3", "m2", "m1", "m0"], False)
    assert page(order="asc", limit=2) == (["m0", "m1"], True)
    assert page(order="asc", limit=2, after="m2") == (["m3", "m4"], False)
    assert page(limit=2, after="m3") == (["m2", "m1"], True)
    assert page(after="m0") == ([], False)


@pytest.mark.parametrize(
    ("query", "param", "message"),
    [
        ({"limit": 0}, "limit", "limit must be 1 to 1000, got '0'"),
        ({"limit": 1001}, "limit", "limit must be 1 to 1000, got '1001'"),
        ({"limit": "many"}, "limit", "limit must be 1 to 1000, got 'many'"),
        ({"limit": "²"}, "limit", "limit must be 1 to 1000, got '²'"),
        ({"order": "up"}, "order", "order must be asc or desc, got 'up'"),
        ({"after": "x"}, "after", "after: the list has no 'x'"),
    ],
)
@pytest.mark.parametrize("path", ["{id}/input_items", ""])
def test_a_wrong_page_is_refused(
    stored_client: FlaskClient, path: str, query: dict[str, Any], param: str, message: str
) -> None:
    id = get_response(stored_client, RESPONSES)["id"]
    response = stored_client.get(f"{RESPONSES}/{path}".format(id=id).rstrip("/"), query_string=query)
    error = response.get_json()["error"]
    assert (response.status_code, error["param"], error["message"]) == (400, param, message)


def test_responses_are_listed_with_their_input(stored_client: FlaskClient) -> None:
    """As the clients of Llama Stack read them: newest first."""
    ids = [get_response(stored_client, RESPONSES, input=text)["id"] for text in ("a", "b", "c")]
    listed = stored_client.get("/v1/openai/v1/responses", query_string={"limit": 2}).get_json()
    assert [each["id"] for each in listed["data"]] == [ids[2], ids[1]]
    everything = stored_client.get("/v1/openai/v1/responses", query_string={"limit": 1000}).get_json()
    assert [each["id"] for each in everything["data"]] == ids[::-1]
    assert [each["input"][0]["content"][0]["text"] for each in listed["data"]] == ["c", "b"]
    assert (listed["has_more"], listed["last_id"]) == (True, ids[1])
    rest = stored_client.get(RESPONSES, query_string={"after": ids[1], "model": "fake/model"}).get_json()
    assert [each["id"] for each in rest["data"]] == [ids[0]] and not rest["has_more"]
    assert stored_client.get(RESPONSES, query_string={"model": "other"}).get_json()["data"] == []


def test_a_page_of_large_responses_is_shorter(stored_client: FlaskClient) -> None:
    ids = [get_response(stored_client, RESPONSES, input="x" * 900_000)["id"] for _ in range(20)]
    first = stored_client.get(RESPONSES, query_string={"limit": 100}).get_json()
    assert first["has_more"] and len(first["data"]) == 18
    rest = stored_client.get(RESPONSES, query_string={"after": first["last_id"]}).get_json()
    assert not rest["has_more"] and [each["id"] for each in rest["data"]] == ids[1::-1]


def test_a_stored_response_is_not_streamed_again(stored_client: FlaskClient) -> None:
    id = get_response(stored_client, RESPONSES)["id"]
    response = stored_client.get(f"{RESPONSES}/{id}", query_string={"stream": "true", "starting_after": 3})
    assert (response.status_code, response.get_json()["error"]["param"]) == (400, "stream")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({str(i): "x" for i in range(17)}, "metadata may have at most 16 pairs, got 17"),
        ({"k" * 65: "x"}, "metadata: a key may have at most 64 characters, got 65"),
        ({"k": "x" * 513}, "metadata.k may have at most 512 characters, got 513"),
        ({"k": 1}, "metadata.k must be a string"),
    ],
)
def test_metadata_has_openais_limits(
    stored_client: FlaskClient, metadata: dict[str, Any], message: str
) -> None:
    response = stored_client.post(RESPONSES, json=body_for(RESPONSES, metadata=metadata))
    assert (response.status_code, response.get_json()["error"]["message"]) == (400, message)


def make_app_with_keys(store: Store) -> Flask:
    return create_app(
        make_models(FakeBackend()), ServerSettings(api_keys=("alice", "bob")), services=Services(store=store)
    )


def test_a_key_sees_only_what_it_has_stored(store: Store) -> None:
    client = make_app_with_keys(store).test_client()
    alice, bob = ({"Authorization": f"Bearer {name}"} for name in ("alice", "bob"))
    response = client.post(RESPONSES, json={"input": "hi"}, headers=alice).get_json()
    path = f"{RESPONSES}/{response['id']}"
    assert client.get(path, headers=alice).status_code == 200
    assert client.get(path, headers={"X-Api-Key": "alice"}).status_code == 200
    assert client.get(path, headers=bob).status_code == client.delete(path, headers=bob).status_code == 404
    assert client.get(RESPONSES, headers=bob).get_json()["data"] == []
    reference = {"input": [{"type": "item_reference", "id": response["output"][0]["id"]}]}
    for body in (reference, {"input": "x", "previous_response_id": response["id"]}):
        assert client.post(RESPONSES, json=body, headers=bob).status_code == 404
        assert client.post(RESPONSES, json=body, headers=alice).status_code == 200


def test_the_key_itself_is_not_stored(store: Store) -> None:
    client = make_app_with_keys(store).test_client()
    client.post(RESPONSES, json={"input": "hi"}, headers={"Authorization": "Bearer alice"})
    ((owner,),) = store.run(lambda connection: connection.execute("SELECT owner FROM objects").fetchall())
    assert len(owner) == 64 and "alice" not in owner
