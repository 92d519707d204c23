"""OpenAI's Files API: uploads, their refusals, lists, contents and deletion."""

import io
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.api.openai.app_requests import refusal
from tests.tuning.scripted_service import create_job
from tuning.data.rows import MAX_LINE_BYTES
from tuning.service import TuningService

ROWS = b'{"messages": []}\n\n{"prompt": "a"}\r\n'


def post_file(client: FlaskClient, content: bytes = ROWS, name: str = "a.jsonl", **fields: Any) -> Any:
    form_data = {"purpose": "fine-tune", "file": (io.BytesIO(content), name)} | fields
    return client.post("/v1/files", data=form_data, content_type="multipart/form-data")


@pytest.mark.parametrize("prefix", ["/v1", "/v1/openai/v1"])
def test_a_file_is_uploaded_read_and_deleted(tuning_client: FlaskClient, prefix: str) -> None:
    form_data = {"purpose": "fine-tune", "file": (io.BytesIO(ROWS), "a.jsonl")}
    file = tuning_client.post(f"{prefix}/files", data=form_data).get_json()
    assert file == {
        "id": file["id"],
        "object": "file",
        "bytes": len(ROWS),
        "created_at": file["created_at"],
        "filename": "a.jsonl",
        "purpose": "fine-tune",
        "status": "processed",
        "expires_at": None,
        "status_details": None,
    }
    path = f"{prefix}/files/{file['id']}"
    assert tuning_client.get(path).get_json() == file
    assert tuning_client.get(f"{path}/content").data == ROWS
    assert tuning_client.delete(path).get_json() == {"id": file["id"], "object": "file", "deleted": True}
    refusal(tuning_client.get(path), 404, f"No such File object: {file['id']}", "NotFoundError", "not_found")


def test_files_are_listed_page_by_page(tuning_client: FlaskClient) -> None:
    ids = [post_file(tuning_client, purpose=p).get_json()["id"] for p in ("fine-tune", "batch", "fine-tune")]
    first = tuning_client.get("/v1/files?limit=2").get_json()
    assert [file["id"] for file in first["data"]] == ids[:0:-1] and first["has_more"]
    assert (first["object"], first["first_id"], first["last_id"]) == ("list", ids[2], ids[1])
    second = tuning_client.get(f"/v1/files?limit=2&after={first['last_id']}").get_json()
    assert [file["id"] for file in second["data"]] == ids[:1] and not second["has_more"]
    selected = tuning_client.get("/v1/files?purpose=batch&order=asc").get_json()
    assert [file["id"] for file in selected["data"]] == [ids[1]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "file is empty"),
        (b"\n \n", "the file has no rows: write a JSON object on each line"),
        (b'{"a": 1}\n{"a": }\n', "Line 2: is not JSON: Expecting value at character 7"),
        (b'{"a": NaN}\n', "Line 1: is not JSON that can be trained on: NaN is no JSON number"),
        (b'{"a": "\xff"}\n', "Line 1: is not UTF-8"),
        (b"[1]\n", 'Line 1: must be a JSON object, such as {"messages": […]}'),
        (b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}", "Line 1: it is nested deeper than 100 levels"),
        (b'{"a": 1}\n"' + b"x" * MAX_LINE_BYTES, f"Line 2: a line may have at most {MAX_LINE_BYTES} bytes"),
    ],
)
def test_a_file_that_is_no_json_lines_is_refused(
    tuning_client: FlaskClient, content: bytes, message: str
) -> None:
    response = post_file(tuning_client, content)
    error = response.get_json()["error"]
    assert (response.status_code, error["type"], error["param"]) == (400, "BadRequestError", "file")
    assert message in error["message"]
    assert tuning_client.get("/v1/files").get_json()["data"] == []


def test_a_file_for_another_purpose_may_be_anything(tuning_client: FlaskClient) -> None:
    assert post_file(tuning_client, b"\xff\x00", purpose="user_data").status_code == 200


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"purpose": "tune"}, "purpose", "must be one of fine-tune"),
        ({"expires_after[seconds]": "60"}, "expires_after[seconds]", "must be 3600 to 2592000, got 60"),
        ({"expires_after[seconds]": "1e9"}, "expires_after[seconds]", "must be a whole number"),
        ({"expires_after[anchor]": "now"}, "expires_after[anchor]", "must be created_at"),
    ],
)
def test_a_wrong_field_is_named(
    tuning_client: FlaskClient, fields: dict[str, str], param: str, words: str
) -> None:
    response = post_file(tuning_client, **fields)
    error = response.get_json()["error"]
    assert response.status_code == 400 and error["param"] == param and words in error["message"]


def test_an_expiry_is_shown(tuning_client: FlaskClient) -> None:
    fields = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    file = post_file(tuning_client, **fields).get_json()
    assert file["expires_at"] == file["created_at"] + 3600


@pytest.mark.parametrize(
    ("name", "expected"),
    [("../../etc/passwd", "passwd"), ("a/b.jsonl", "b.jsonl"), ("..", "file"), ("/", "file")],
)
def test_a_name_loses_its_folders(tuning_client: FlaskClient, name: str, expected: str) -> None:
    assert post_file(tuning_client, name=name).get_json()["filename"] == expected


@pytest.mark.parametrize(
    ("data", "content_type", "words"),
    [
        (b"{}", "application/json", "must be multipart/form-data, got 'application/json'"),
        (b"x", "multipart/form-data", "with a boundary"),
        (b"no parts", "multipart/form-data; boundary=x", "must be multipart/form-data"),
        (
            b"--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--",
            "multipart/form-data; boundary=x",
            "file",
        ),
        (b"", "", "got 'no Content-Type'"),
    ],
)
def test_a_body_that_is_no_form_is_refused(
    tuning_client: FlaskClient, data: bytes, content_type: str, words: str
) -> None:
    response = tuning_client.post("/v1/files", data=data, content_type=content_type)
    assert response.status_code == 400 and words in response.get_json()["error"]["message"]


def test_a_form_needs_a_file_and_a_purpose(tuning_client: FlaskClient) -> None:
    form_data = {"purpose": "fine-tune", "other": (io.BytesIO(ROWS), "a.jsonl")}
    response = tuning_client.post("/v1/files", data=form_data)
    assert response.get_json()["error"]["param"] == "file"
    response = tuning_client.post("/v1/files", data={"file": (io.BytesIO(ROWS), "a.jsonl")})
    assert response.get_json()["error"]["param"] == "purpose"


def test_a_refused_upload_leaves_nothing_on_the_disk(
    tuning_client: FlaskClient, tuning: TuningService
) -> None:
    post_file(tuning_client, b"[]")
    post_file(tuning_client, purpose="tune")
    assert list((tuning.folder / "files").iterdir()) == []


def test_a_file_that_a_job_needs_cannot_be_deleted(tuning_client: FlaskClient, tuning: TuningService) -> None:
    job = create_job(tuning, {"step_s": 0.05}, steps=1000)
    response = tuning_client.delete(f"/v1/files/{job.request.training}")
    error = response.get_json()["error"]
    assert response.status_code == 400 and f"the fine-tuning job {job.id} still needs it" in error["message"]
    tuning.jobs.cancel(job.id)
    assert tuning_client.delete(f"/v1/files/{job.request.training}").status_code == 200


def test_a_server_without_tuning_has_no_files(client: FlaskClient) -> None:
    response = post_file(client)
    assert response.status_code == 404 and "TUNING_DIR" in response.get_json()["error"]["message"]
