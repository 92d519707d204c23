"""Rows of a dataset come from the request, a data: URI, an uploaded file or the Hub, from nowhere else."""

import base64
import io
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hub.client import Hub
from hub.fetch_dataset import fetch_dataset
from inference.errors import BadRequest
from inference.finding import Finding, Refused
from tests.fakes import fake_hub
from tests.tuning.conftest import MakeService
from tuning.service import TuningService

PURPOSE = "post-training/messages"


def register(service: TuningService, uri: str) -> list[dict[str, Any]]:
    """The rows of a dataset that is registered with this source."""
    dataset = service.datasets.register("", PURPOSE, {"type": "uri", "uri": uri})
    return list(service.datasets.rows(dataset.id, 0, -1))


def refusal(service: TuningService, uri: str) -> str:
    with pytest.raises(BadRequest) as refused:
        register(service, uri)
    assert not list((service.folder / "datasets").iterdir()), "what was read of it is left"
    return refused.value.message


def data_uri(content: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


@pytest.mark.parametrize(
    ("uri", "rows"),
    [
        (data_uri(b"a,b\n1,2\n", "text/csv"), [{"a": "1", "b": "2"}]),
        (data_uri(b'{"a": 1}\n{"a": 2}', "application/jsonl"), [{"a": 1}, {"a": 2}]),
        (data_uri('[{"a": "é"}]'.encode(), "application/json;charset=utf-8"), [{"a": "é"}]),
        ("data:text/csv,a%0A%22x%0Ay%22", [{"a": "x\ny"}]),
    ],
)
def test_a_data_uri_has_rows_in_each_format(
    service: TuningService, uri: str, rows: list[dict[str, Any]]
) -> None:
    assert register(service, uri) == rows


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        (data_uri(b'{"a": 1}\n{', "application/jsonl"), "source.uri cannot be read: Line 2: is not JSON"),
        (data_uri(b"a,b\n1\n", "text/csv"), "source.uri cannot be read: Line 2: must have 2 values"),
        (data_uri(b"", "application/jsonl"), "source.uri cannot be read: the dataset is empty"),
        (data_uri(b'{"a": NaN}', "application/jsonl"), "Line 1: is not JSON that can be trained on: NaN"),
        ("data:application/jsonl;base64,%%%", "source.uri is not base64"),
        ("data:text/html,x", "source.uri must be data:TYPE"),
        ("data:,x", "source.uri must be data:TYPE"),
        ("data:", "source.uri must be data:TYPE"),
        ("https://127.0.0.1/rows.jsonl", "source.uri must be a data: URI, the id of an uploaded file"),
        ("file:///etc/passwd", "source.uri must be a data: URI"),
        ("huggingface://acme/rows", "source.uri must be a data: URI"),
    ],
)
def test_other_sources_are_refused_and_leave_nothing(service: TuningService, uri: str, message: str) -> None:
    assert message in refusal(service, uri)


def test_the_scheme_and_its_words_may_be_in_capitals(service: TuningService) -> None:
    uri = "DATA:Application/JSONL;Charset=UTF-8;BASE64," + base64.b64encode(b'{"a": 1}').decode()
    assert register(service, uri) == [{"a": 1}]


def test_an_uploaded_file_is_a_source(service: TuningService) -> None:
    file = service.files.create(io.BytesIO(b'{"a": 1}\n\n{"a": 2}\n'), "rows.jsonl", "fine-tune")
    assert register(service, file.id) == [{"a": 1}, {"a": 2}]


def test_a_split_on_the_hub_is_a_source(open_services: MakeService, tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "train.jsonl").write_bytes(b'{"a": 1}\n{"a": 2}\n')
    (folder / "test.csv").write_bytes(b"a\n3\n4,5\n")
    with fake_hub.running() as fake:
        fake.repos["datasets/acme/rows"] = fake_hub.Repo(folder)
        hub = Hub(fake.url, tmp_path / "hub")
        service = open_services(fetch_dataset=partial(fetch_dataset, hub, max_bytes=1000, offline=False))
        assert "Line 3: must have 1 values" in refusal(service, "huggingface://acme/rows?split=test")
        assert "acme/none cannot be used: no such dataset" in refusal(service, "huggingface://acme/none")
        assert register(service, "huggingface://datasets/acme/rows") == [{"a": 1}, {"a": 2}]
        assert {request.host for request in fake.requests} == {fake.url.removeprefix("http://")}


def test_a_failure_that_may_name_a_folder_is_only_logged(
    open_services: MakeService, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(source: object) -> list[Path]:
        raise Refused(Finding("cache", "to write in /secret/folder", "read-only /secret", False, "CACHE_DIR"))

    message = refusal(open_services(fetch_dataset=fail), "huggingface://acme/rows")
    assert (
        message == "source.uri acme/rows cannot be used: it could not be fetched: the server's log says why"
    )
    assert "/secret" in caplog.text
