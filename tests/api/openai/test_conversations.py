"""/v1/conversations: create, show, update and delete; their items."""

from typing import Any

import pytest
from flask.testing import FlaskClient

CONVERSATIONS = "/v1/conversations"
USER = {"role": "user", "content": "hi"}


def create(client: FlaskClient, **fields: Any) -> str:
    response = client.post(CONVERSATIONS, json=fields)
    assert response.status_code == 200, response.text
    return str(response.get_json()["id"])


def items_of(client: FlaskClient, id: str, **query: Any) -> Any:
    return client.get(f"{CONVERSATIONS}/{id}/items", query_string=query).get_json()


@pytest.mark.parametrize("prefix", ["/v1", "/v1/openai/v1"])
def test_a_conversation_is_created_and_shown(stored_client: FlaskClient, prefix: str) -> None:
    created = stored_client.post(f"{prefix}/conversations", json={"metadata": {"a": "b"}}).get_json()
    assert created["id"].startswith("conv_") and isinstance(created["created_at"], int)
    assert (created["object"], created["metadata"]) == ("conversation", {"a": "b"})
    assert stored_client.get(f"{prefix}/conversations/{created['id']}").get_json() == created


def test_an_update_replaces_the_metadata(stored_client: FlaskClient) -> None:
    id = create(stored_client, metadata={"a": "b", "c": "d"})
    updated = stored_client.post(f"{CONVERSATIONS}/{id}", json={"metadata": {"a": "z"}}).get_json()
    assert updated["metadata"] == {"a": "z"}
    assert stored_client.get(f"{CONVERSATIONS}/{id}").get_json() == updated
    assert stored_client.post(f"{CONVERSATIONS}/{id}", json={"metadata": None}).get_json()["metadata"] == {}


def test_a_deleted_conversation_is_gone_with_its_items(stored_client: FlaskClient) -> None:
    id = create(stored_client, items=[{**USER, "id": "m1"}])
    deleted = stored_client.delete(f"{CONVERSATIONS}/{id}").get_json()
    assert deleted == {"id": id, "object": "conversation.deleted", "deleted": True}
    for path in ("", "/items", "/items/m1"):
        assert stored_client.get(f"{CONVERSATIONS}/{id}{path}").status_code == 404


def test_items_are_added_and_listed_in_pages(stored_client: FlaskClient) -> None:
    id = create(stored_client, items=[{**USER, "id": "m0"}])
    added = stored_client.post(
        f"{CONVERSATIONS}/{id}/items",
        json={"items": [{**USER, "id": "m1"}, {"role": "assistant", "content": "x", "id": "m2"}]},
    ).get_json()
    assert [item["id"] for item in added["data"]] == ["m1", "m2"] and added["has_more"] is False
    assert [item["id"] for item in items_of(stored_client, id)["data"]] == ["m2", "m1", "m0"]
    page = items_of(stored_client, id, order="asc", limit=1, after="m0")
    assert ([item["id"] for item in page["data"]], page["has_more"]) == (["m1"], True)


def test_an_item_is_shown_and_deleted(stored_client: FlaskClient) -> None:
    id = create(stored_client, items=[{**USER, "id": "m0"}, {**USER, "id": "m1"}], metadata={"a": "b"})
    item = stored_client.get(f"{CONVERSATIONS}/{id}/items/m0").get_json()
    assert (item["id"], item["content"]) == ("m0", [{"type": "input_text", "text": "hi"}])
    conversation = stored_client.delete(f"{CONVERSATIONS}/{id}/items/m0").get_json()
    assert (conversation["id"], conversation["metadata"]) == (id, {"a": "b"})
    assert [item["id"] for item in items_of(stored_client, id)["data"]] == ["m1"]
    assert stored_client.get(f"{CONVERSATIONS}/{id}/items/m0").status_code == 404
    assert stored_client.delete(f"{CONVERSATIONS}/{id}/items/m0").status_code == 404


def test_an_item_may_reference_a_stored_one(stored_client: FlaskClient) -> None:
    create(stored_client, items=[{**USER, "id": "m0"}])
    id = create(stored_client, items=[{"type": "item_reference", "id": "m0"}])
    (item,) = items_of(stored_client, id)["data"]
    assert (item["id"], item["role"]) == ("m0", "user")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"items": [USER] * 21}, "items may hold at most 20 items, got 21"),
        (
            {"items": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "items[0].content[0] is of type",
        ),
        ({"metadata": {"a": 1}}, "metadata.a must be a string"),
        ({"metadata": "x"}, "metadata must be"),
    ],
)
def test_wrong_values_are_refused(stored_client: FlaskClient, body: dict[str, Any], message: str) -> None:
    id = create(stored_client)
    paths = [CONVERSATIONS, f"{CONVERSATIONS}/{id}/items" if "items" in body else f"{CONVERSATIONS}/{id}"]
    for path in paths:
        response = stored_client.post(path, json=body)
        assert response.status_code == 400
        assert response.get_json()["error"]["message"].startswith(message)


def test_unknown_conversations_are_not_found(stored_client: FlaskClient) -> None:
    unknown = f"{CONVERSATIONS}/conv_1"
    responses = [
        stored_client.get(unknown),
        stored_client.delete(unknown),
        stored_client.post(unknown, json={"metadata": {}}),
        stored_client.post(f"{unknown}/items", json={"items": [USER]}),
        stored_client.get(f"{unknown}/items"),
    ]
    for response in responses:
        assert response.status_code == 404
        assert response.get_json()["error"]["message"] == "Conversation with id 'conv_1' not found."


def test_a_server_without_a_store_has_no_conversations(client: FlaskClient) -> None:
    response = client.post(CONVERSATIONS, json={})
    assert response.status_code == 404 and "stores nothing" in response.get_json()["error"]["message"]


def test_items_with_one_id_are_listed_on_pages_that_end(stored_client: FlaskClient) -> None:
    twice = [{**USER, "id": "m"}] * 2
    id = create(stored_client, items=twice)
    added = stored_client.post(f"{CONVERSATIONS}/{id}/items", json={"items": [*twice, {**USER, "id": "n"}]})
    ids = [item["id"] for item in added.get_json()["data"]]
    response = {"conversation": id, "input": twice}
    assert stored_client.post("/v1/responses", json=response).get_json()["status"] == "completed"
    pages, after = [], None
    while after is None or pages[-1]["has_more"]:
        pages.append(items_of(stored_client, id, order="asc", limit=1, **({"after": after} if after else {})))
        after = pages[-1]["last_id"]
        assert len(pages) <= 8
    listed = [page["data"][0]["id"] for page in pages]
    assert len(set(listed)) == 8 and listed[0] == "m" and listed[2:5] == ids
