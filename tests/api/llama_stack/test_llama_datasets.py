"""Datasets and their rows, in the paths and bodies of every generation of clients."""

import base64
import json
from typing import Any

import pytest
from flask.testing import FlaskClient

ROWS = [
    {"messages": [{"role": "user", "content": f"{i}?"}, {"role": "assistant", "content": f"{i}"}]}
    for i in range(5)
]
SOURCE = {"type": "rows", "rows": ROWS}
CSV = "prompt,completion\na,1\nb,2\n"
SCHEMA = {"prompt": {"type": "string"}, "completion": {"type": "string"}}
NOT_FOUND = "Invalid value: Dataset 'x' not found"


def csv_uri(media_type: str = "text/csv") -> str:
    return f"data:{media_type};base64,{base64.b64encode(CSV.encode()).decode()}"


def register(client: FlaskClient, prefix: str = "/v1", **fields: Any) -> Any:
    body = {"purpose": "post-training/messages", "dataset_id": "d", "metadata": {}, "source": SOURCE} | fields
    return client.post(f"{prefix}/datasets", json=body)


@pytest.mark.parametrize("prefix", ["/v1", "/v1beta"])
def test_a_dataset_of_the_newer_clients_is_stored_and_read(trainer_client: FlaskClient, prefix: str) -> None:
    response = register(trainer_client, prefix, metadata={"a": 1})
    card = {
        "identifier": "d",
        "type": "dataset",
        "provider_id": "local",
        "provider_resource_id": "d",
        "purpose": "post-training/messages",
        "source": SOURCE,
        "metadata": {"a": 1},
    }
    assert response.status_code == 200 and response.json | card == response.json
    assert trainer_client.get(f"{prefix}/datasets/d").json == response.json
    assert [each["identifier"] for each in trainer_client.get(f"{prefix}/datasets").json["data"]] == ["d"]
    rows = trainer_client.get(f"{prefix}/datasetio/iterrows/d?start_index=1&limit=2").json
    assert rows == {"data": ROWS[1:3], "has_more": True, "url": None}
    appended = trainer_client.post(f"{prefix}/datasetio/append-rows/d", json={"rows": ROWS[:1]})
    assert (appended.status_code, appended.data) == (200, b"null")
    rest = trainer_client.get(f"{prefix}/datasetio/iterrows/d?start_index=3").json
    assert rest == {"data": [*ROWS[3:], ROWS[0]], "has_more": False, "url": None}
    removed = trainer_client.delete(f"{prefix}/datasets/d")
    assert (removed.status_code, removed.data) == (200, b"null")
    assert trainer_client.get(f"{prefix}/datasets").json == {"data": []}


def test_the_datasets_of_0_1_0_have_a_schema_and_a_url(trainer_client: FlaskClient) -> None:
    body = {"dataset_id": "d", "dataset_schema": SCHEMA, "url": {"uri": csv_uri()}, "metadata": {}}
    response = trainer_client.post("/v1/datasets", json=body)
    assert (response.status_code, response.data) == (200, b"null")
    card = trainer_client.get("/v1/datasets/d").json
    assert (card["dataset_schema"], card["url"], card["purpose"]) == (
        SCHEMA,
        {"uri": csv_uri()},
        "post-training/messages",
    )
    page = trainer_client.get("/v1/datasetio/rows?dataset_id=d&rows_in_page=1").json
    assert page == {"rows": [{"prompt": "a", "completion": "1"}], "total_count": 2, "next_page_token": "1"}
    last = trainer_client.get("/v1/datasetio/rows?dataset_id=d&rows_in_page=-1&page_token=1").json
    assert last == {"rows": [{"prompt": "b", "completion": "2"}], "total_count": 2, "next_page_token": None}
    row = {"prompt": "c", "completion": "3"}
    assert trainer_client.post("/v1/datasetio/rows", json={"dataset_id": "d", "rows": [row]}).data == b"null"
    assert trainer_client.get("/v1/datasetio/rows?dataset_id=d&rows_in_page=-1").json["rows"][-1] == row


def test_the_datasets_of_alpha_are_an_array(trainer_client: FlaskClient) -> None:
    body = {"dataset_id": "d", "dataset_schema": SCHEMA, "url": {"uri": csv_uri()}, "metadata": {"a": 1}}
    assert trainer_client.post("/alpha/datasets/register", json=body).data == b"null"
    (card,) = trainer_client.get("/alpha/datasets/list", headers={"Accept": "application/jsonl"}).json
    assert card == trainer_client.get("/alpha/datasets/get?dataset_id=d").json
    assert (card["url"], card["metadata"]) == ({"uri": csv_uri()}, {"a": 1})
    row = {"prompt": "c", "completion": "3"}
    append = trainer_client.post("/alpha/datasetio/append-rows", json={"dataset_id": "d", "rows": [row]})
    assert append.data == b"null"
    page = trainer_client.get("/alpha/datasetio/get-rows-paginated?dataset_id=d&rows_in_page=-1").json
    assert (page["total_count"], page["rows"][-1]) == (3, row)
    assert trainer_client.post("/alpha/datasets/unregister", json={"dataset_id": "d"}).data == b"null"
    assert trainer_client.get("/alpha/datasets/list").json == []


def test_the_datasets_of_0_0_50_are_definitions(trainer_client: FlaskClient) -> None:
    definition = {
        "identifier": "d",
        "dataset_schema": SCHEMA,
        "url": csv_uri(),
        "metadata": {},
        "provider_id": "",
    }
    assert trainer_client.post("/datasets/register", json={"dataset_def": definition}).data == b"null"
    card = trainer_client.get("/datasets/get?dataset_identifier=d").json
    assert (card["identifier"], card["url"], card["dataset_schema"]) == ("d", csv_uri(), SCHEMA)
    assert trainer_client.get("/datasets/list").json == [card]
    page = trainer_client.get("/datasetio/get_rows_paginated?dataset_id=d&rows_in_page=1").json
    assert page["next_page_token"] == "1"


def test_the_datasets_of_0_0_41_have_a_uuid(trainer_client: FlaskClient) -> None:
    dataset = {"columns": {"prompt": "text"}, "content_url": csv_uri(), "metadata": None}
    assert trainer_client.post("/datasets/create", json={"uuid": "d", "dataset": dataset}).data == b"null"
    card = trainer_client.get("/datasets/get?dataset_uuid=d").json
    assert (card["columns"], card["content_url"], card["metadata"]) == ({"prompt": "text"}, csv_uri(), {})
    assert trainer_client.post("/datasets/delete", json={"dataset_uuid": "d"}).data == b"null"
    assert trainer_client.get("/datasets/get?dataset_uuid=d").status_code == 400


def test_a_dataset_without_a_name_gets_one(trainer_client: FlaskClient) -> None:
    name = register(trainer_client, dataset_id=None).json["identifier"]
    assert name.startswith("dataset-")
    assert trainer_client.get(f"/v1/datasets/{name}").status_code == 200


@pytest.mark.parametrize("separator", ["/", "%2F"])
def test_a_name_may_have_a_slash(trainer_client: FlaskClient, separator: str) -> None:
    register(trainer_client, dataset_id="team/d")
    assert trainer_client.get(f"/v1/datasets/team{separator}d").json["identifier"] == "team/d"
    assert len(trainer_client.get(f"/v1/datasetio/iterrows/team{separator}d").json["data"]) == 5


def test_lists_leave_out_the_rows(trainer_client: FlaskClient) -> None:
    register(trainer_client)
    (card,) = trainer_client.get("/v1/datasets").json["data"]
    assert card["source"] == {"type": "rows", "rows": []}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get", "/v1/datasets/x"),
        ("delete", "/v1/datasets/x"),
        ("get", "/v1beta/datasetio/iterrows/x"),
        ("get", "/v1/datasetio/rows?dataset_id=x&rows_in_page=1"),
        ("get", "/alpha/datasets/get?dataset_id=x"),
        ("get", "/datasets/get?dataset_identifier=x"),
    ],
)
def test_an_unknown_dataset_is_an_invalid_value(trainer_client: FlaskClient, method: str, path: str) -> None:
    response = getattr(trainer_client, method)(path)
    assert (response.status_code, response.json["detail"]) == (400, NOT_FOUND)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"purpose": "fun"}, "purpose must be one of post-training/messages"),
        ({"source": {"type": "rows", "rows": []}}, "source has no rows"),
        ({"source": {"type": "rows", "rows": [1]}}, "source.rows[0] must be `object`"),
        ({"source": {"type": "uri", "uri": "http://10.0.0.1/a.jsonl"}}, "source.uri must be a data: URI"),
        ({"source": {"type": "uri", "uri": "file:///etc/passwd"}}, "source.uri must be a data: URI"),
        ({"source": {"type": "uri", "uri": "/etc/passwd"}}, "source.uri must be a data: URI"),
        ({"source": {"type": "uri", "uri": "lsfs://a.jsonl"}}, "source.uri must be a data: URI"),
        ({"source": {"type": "uri", "uri": csv_uri("text/html")}}, "source.uri must be"),
        ({"dataset_id": "../d"}, "dataset_id must be"),
        ({"source": None}, "source is required"),
    ],
)
def test_a_dataset_that_cannot_be_stored_is_refused(
    trainer_client: FlaskClient, fields: dict[str, Any], words: str
) -> None:
    response = register(trainer_client, **fields)
    assert response.status_code == 400
    assert words in response.json["error"]["message"]
    assert trainer_client.get("/v1/datasets").json == {"data": []}


def test_a_name_that_exists_is_refused(trainer_client: FlaskClient) -> None:
    register(trainer_client)
    response = register(trainer_client, source={"type": "rows", "rows": ROWS[:1]})
    assert response.status_code == 400 and "already exists" in response.json["error"]["message"]
    assert len(trainer_client.get("/v1/datasetio/iterrows/d").json["data"]) == 5


@pytest.mark.parametrize("query", ["start_index=x", "start_index=-1", "limit=-2"])
def test_a_page_that_is_none_is_refused(trainer_client: FlaskClient, query: str) -> None:
    register(trainer_client)
    assert trainer_client.get(f"/v1/datasetio/iterrows/d?{query}").status_code == 400


def test_a_filter_is_refused(trainer_client: FlaskClient) -> None:
    register(trainer_client)
    path = "/v1/datasetio/rows?dataset_id=d&rows_in_page=1&filter_condition=a"
    assert trainer_client.get(path).status_code == 400


def test_a_server_that_does_not_train_says_so(client: FlaskClient) -> None:
    response = client.get("/v1/datasets")
    assert response.status_code == 404 and "TUNING_DIR" in response.json["detail"]


def test_a_command_line_sends_a_file_without_a_type(trainer_client: FlaskClient) -> None:
    lines = "\n".join(json.dumps(row) for row in ROWS)
    encoded = base64.b64encode(lines.encode()).decode()
    response = register(trainer_client, source={"uri": f"data:None;base64,{encoded}"})
    assert response.json["source"] == {"type": "uri", "uri": f"data:application/jsonl;base64,{encoded}"}
    assert trainer_client.get("/v1/datasetio/iterrows/d").json["data"] == ROWS


def test_rows_without_a_type_are_rows(trainer_client: FlaskClient) -> None:
    assert register(trainer_client, source={"rows": ROWS}).json["source"] == SOURCE
