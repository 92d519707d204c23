"""Chat completions with store: true: how they are shown, listed, changed and deleted."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.api.openai.app_requests import CHATS, USER, body_for, chunks, get_response

LLAMA_STACK = {"User-Agent": "LlamaStackClient/Python 0.7.1"}


def store_chat(client: FlaskClient, **fields: Any) -> Any:
    return get_response(client, CHATS, store=True, **fields)


def ids_of(client: FlaskClient, headers: dict[str, str] | None = None, **query: Any) -> list[str]:
    listed = client.get(CHATS, query_string=query, headers=headers)
    assert listed.status_code == 200, listed.text
    return [each["id"] for each in listed.get_json()["data"]]


def test_a_chat_is_stored_with_its_messages_and_metadata(stored_client: FlaskClient) -> None:
    answered = store_chat(stored_client, metadata={"a": "b"})
    stored = stored_client.get(f"{CHATS}/{answered['id']}").get_json()
    assert stored == answered | {"metadata": {"a": "b"}, "input_messages": [USER]}
    other_prefix = stored_client.get(f"/v1/openai{CHATS}/{answered['id']}")
    assert other_prefix.get_json() == stored


def test_a_chat_is_not_stored_unless_it_says_so(stored_client: FlaskClient) -> None:
    get_response(stored_client, CHATS, metadata={"a": 1})
    get_response(stored_client, CHATS, store=False)
    assert ids_of(stored_client) == []


def test_a_streamed_chat_is_stored_whole(stored_client: FlaskClient) -> None:
    streamed = chunks(stored_client, CHATS, store=True, n=2, temperature=0)
    stored = stored_client.get(f"{CHATS}/{streamed[0]['id']}").get_json()
    assert [choice["message"]["content"] for choice in stored["choices"]] == ["Hello world"] * 2
    assert stored["object"] == "chat.completion"


def test_chats_are_listed_oldest_first_and_newest_first_for_llama_stack(stored_client: FlaskClient) -> None:
    ids = [store_chat(stored_client)["id"] for _ in range(3)]
    assert ids_of(stored_client) == ids
    assert ids_of(stored_client, headers=LLAMA_STACK) == ids[::-1]
    assert ids_of(stored_client, order="desc", limit=1, after=ids[2]) == [ids[1]]


def test_chats_are_listed_by_model_and_metadata(stored_client: FlaskClient) -> None:
    first = store_chat(stored_client, metadata={"kind": "a", "n": "1"})["id"]
    second = store_chat(stored_client, metadata={"kind": "a", 'a "quoted" key': "2"})["id"]
    store_chat(stored_client)
    assert ids_of(stored_client, **{"metadata[kind]": "a"}) == [first, second]
    assert ids_of(stored_client, **{"metadata[kind]": "a", "metadata[n]": "1"}) == [first]
    assert ids_of(stored_client, **{'metadata[a "quoted" key]': "2"}) == [second]
    assert ids_of(stored_client, **{"metadata[kind]": "b"}) == []
    assert len(ids_of(stored_client, model="fake/model")) == 3
    assert ids_of(stored_client, model="other") == []


def test_a_filter_has_no_more_pairs_than_metadata(stored_client: FlaskClient) -> None:
    query = {f"metadata[{number}]": "x" for number in range(17)}
    response = stored_client.get(CHATS, query_string=query)
    assert (response.status_code, response.get_json()["error"]["param"]) == (400, "metadata")


def test_the_messages_of_a_chat_are_listed(stored_client: FlaskClient) -> None:
    content_parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [USER, {"role": "assistant", "content": "x"}, {"role": "user", "content": content_parts}]
    id = store_chat(stored_client, messages=messages)["id"]
    listed = stored_client.get(f"{CHATS}/{id}/messages").get_json()
    assert [each["id"] for each in listed["data"]] == [f"{id}-0", f"{id}-1", f"{id}-2"]
    assert [each["content"] for each in listed["data"]] == ["hi", "x", "ab"]
    assert [each["content_parts"] for each in listed["data"]] == [None, None, content_parts]
    page = stored_client.get(f"{CHATS}/{id}/messages?order=desc&limit=1&after={id}-2").get_json()
    assert ([each["id"] for each in page["data"]], page["has_more"]) == ([f"{id}-1"], True)
    assert stored_client.get(f"{CHATS}/{id}/messages?after=x").status_code == 400


def test_an_update_replaces_the_metadata(stored_client: FlaskClient) -> None:
    id = store_chat(stored_client, metadata={"a": "b"})["id"]
    updated = stored_client.post(f"{CHATS}/{id}", json={"metadata": {"c": "d"}}).get_json()
    assert (updated["id"], updated["metadata"]) == (id, {"c": "d"})
    assert stored_client.get(f"{CHATS}/{id}").get_json() == updated


def test_a_chat_is_deleted(stored_client: FlaskClient) -> None:
    id = store_chat(stored_client)["id"]
    deleted = stored_client.delete(f"{CHATS}/{id}").get_json()
    assert deleted == {"id": id, "object": "chat.completion.deleted", "deleted": True}
    missing = stored_client.get(f"{CHATS}/{id}")
    assert missing.status_code == 404
    assert missing.get_json()["error"]["message"] == f"Chat completion with id {id!r} not found."


@pytest.mark.parametrize("metadata", [{"k": 1}, "text", {"k" * 65: "x"}])
def test_metadata_of_a_stored_chat_has_openais_limits(stored_client: FlaskClient, metadata: Any) -> None:
    response = stored_client.post(CHATS, json=body_for(CHATS, store=True, metadata=metadata))
    assert response.status_code == 400
    assert response.get_json()["error"]["param"].startswith("metadata")


def test_a_server_without_a_store_answers_and_lists_nothing(client: FlaskClient) -> None:
    id = store_chat(client)["id"]
    assert client.get(CHATS).status_code == client.get(f"{CHATS}/{id}").status_code == 404
