"""A hundred bodies of no good intent: each is a 4xx of OpenAI's shape, and nothing is stored."""

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.services import Services
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models
from tests.tuning.scripted_service import ROW, RecordingAdapters, make_service, upload
from tuning.service import TuningService

FILES, JOBS = "/v1/files", "/v1/fine_tuning/jobs"
CRLF = b"\r\n"
HEAD = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n'
FILE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n{"a":1}\r\n'
MULTIPART = "multipart/form-data; boundary=b"

# (body, Content-Type)
MULTIPART_BODIES: list[tuple[bytes, str]] = [
    (b"", ""),
    (b"", "multipart/form-data"),
    (b"", MULTIPART),
    (b"{}", "application/json"),
    (b"a=b", "application/x-www-form-urlencoded"),
    (HEAD + FILE + b"--b--", "multipart/form-data"),
    (HEAD + FILE + b"--b--", "multipart/form-data; boundary="),
    (HEAD + FILE + b"--b--", "multipart/form-data; boundary=other"),
    (HEAD + FILE + b"--b--", 'multipart/form-data; boundary="b'),
    (HEAD + FILE + b"--b--", "multipart/mixed; boundary=b"),
    (HEAD + FILE + b"--b--", "multipart/form-data; boundary=" + "b" * 5000),
    (HEAD + FILE, MULTIPART),
    (HEAD + b"--b--", MULTIPART),
    (FILE + b"--b--", MULTIPART),
    (HEAD + FILE[:40], MULTIPART),
    (b"--b\r\n\r\nx\r\n--b--", MULTIPART),
    (b"--b\r\nContent-Disposition: attachment\r\n\r\nx\r\n--b--", MULTIPART),
    (b"--b\r\nContent-Disposition: form-data; name=\r\n\r\nx\r\n--b--", MULTIPART),
    (b"--b\r\n" + b"X: y\r\n" * 50_000 + b"\r\nx\r\n--b--", MULTIPART),
    (HEAD * 101 + b"--b--", MULTIPART),
    (HEAD.replace(b"fine-tune", b"x" * (2 << 20)) + FILE + b"--b--", MULTIPART),
    (HEAD.replace(b"fine-tune", b"\xff\xfe") + FILE + b"--b--", MULTIPART),
    (HEAD.replace(b"fine-tune", b"fine-tune-results") + FILE + b"--b--", MULTIPART),
    (HEAD + FILE.replace(b'name="file"', b'name="file[]"') + b"--b--", MULTIPART),
    (HEAD + FILE.replace(b'; filename="a"', b"") + b"--b--", MULTIPART),
    (HEAD + FILE.replace(b'{"a":1}', b"") + b"--b--", MULTIPART),
    (b"\x00" * 100_000, MULTIPART),
    (b"--b" * 100_000, MULTIPART),
    (CRLF * 100_000, MULTIPART),
]

# Contents of files for the purpose fine-tune.
CONTENTS: list[bytes] = [
    b"\x00",
    b"\xff\xfe{\x00}\x00",
    b"PK\x03\x04",
    b"\x80\x04\x95",
    b"{",
    b"{'a': 1}",
    b'{"a": NaN}',
    b'{"a": Infinity}',
    b'{"a": 1e999}',
    b'{"a": "\\ud800"}',
    b'{"a": "\xc0\x80"}',
    b"null",
    b"1",
    b'"text"',
    b"[]",
    b'[{"a": 1}]',
    b'{"a": 1} {"b": 2}',
    b'{"a": 1},\n{"b": 2}',
    b'{"a": 1}\n\n\n[]',
    b"{" * 10_000,
    b'{"a":' * 101 + b"1" + b"}" * 101,
    b"[" * 1_000_000,
    b'{"a": "' + b"x" * (5 << 20) + b'"}',
    b"\n" * 100_000,
    b" " * 100_000,
]

JOB_FIELDS: list[dict[str, Any]] = [
    {"model": None},
    {"model": 1},
    {"model": ["fake/model"]},
    {"model": "x" * 10_000},
    {"model": "../../etc"},
    {"model": "ft:model:local::00000000"},
    {"training_file": None},
    {"training_file": 7},
    {"training_file": ""},
    {"training_file": "file-"},
    {"training_file": "file-../../../etc/passwd"},
    {"training_file": "/etc/passwd"},
    {"training_file": "file:///etc/passwd"},
    {"training_file": "http://127.0.0.1/"},
    {"training_file": "x" * 100_000},
    {"training_file": "file-\x00"},
    {"validation_file": "file-none"},
    {"validation_file": {"id": "file-none"}},
    {"suffix": "../x"},
    {"suffix": "a/b"},
    {"suffix": ".."},
    {"suffix": "ü"},
    {"suffix": "a\nb"},
    {"suffix": "x" * 65},
    {"seed": "many"},
    {"seed": 2**31},
    {"seed": 1.5},
    {"metadata": []},
    {"metadata": {str(number): "x" for number in range(17)}},
    {"metadata": {"k" * 65: "x"}},
    {"metadata": {"k": "x" * 513}},
    {"metadata": {"k": None}},
    {"integrations": [{}]},
    {"method": "supervised"},
    {"method": {"type": None}},
    {"method": {"type": "reinforcement", "reinforcement": {"grader": {"source": "import os"}}}},
    {"method": {"type": "supervised", "supervised": []}},
    {"method": {"type": "dpo", "dpo": {"hyperparameters": {"beta": 0}}}},
    {"method": {"type": "supervised", "supervised": {"hyperparameters": 3}}},
    {"hyperparameters": []},
    {"hyperparameters": {"n_epochs": 10**400}},
    {"hyperparameters": {"n_epochs": -1}},
    {"hyperparameters": {"n_epochs": "AUTO"}},
    {"hyperparameters": {"n_epochs": [3]}},
    {"hyperparameters": {"batch_size": 1.5}},
    {"hyperparameters": {"batch_size": 1_000_000_000}},
    {"hyperparameters": {"learning_rate": 1e308}},
    {"hyperparameters": {"lora_rank": 10**9}},
    {"hyperparameters": {"lora_alpha": -1}},
    {"hyperparameters": {"lora_target_modules": "(a+)+$"}},
    {"hyperparameters": {"lora_target_modules": [{"a": 1}]}},
    {"hyperparameters": {"max_length": -5}},
    {"hyperparameters": {"max_steps": "1"}},
    {"hyperparameters": {"packing": "yes"}},
    {"hyperparameters": {"__class__": 1}},
]

JOB_BODIES: list[bytes] = [
    b"",
    b"null",
    b"[]",
    b"{",
    b"\xff",
    b'{"model": NaN}',
    b'{"seed": Infinity, "model": "fake/model", "training_file": "x"}',
    b'{"hyperparameters": {"learning_rate": -Infinity}}',
    b'{"model": "a", "model": "b"}',
    b"[" * 100_000,
    b'{"a":' * 1000,
]
REQUESTS: list[tuple[str, str]] = [
    ("GET", f"{FILES}/..%2f..%2fetc%2fpasswd"),
    ("GET", f"{FILES}/file-x/content"),
    ("GET", f"{FILES}/%00/content"),
    ("DELETE", f"{FILES}/file-x"),
    ("GET", f"{FILES}?limit=10001"),
    ("GET", f"{FILES}?limit=-1"),
    ("GET", f"{FILES}?limit=٣"),
    ("GET", f"{FILES}?order=up"),
    ("GET", f"{FILES}?after=file-x"),
    ("GET", f"{JOBS}?limit=1001"),
    ("GET", f"{JOBS}?limit=1e3"),
    ("GET", f"{JOBS}?after=ftjob-x"),
    ("GET", f"{JOBS}?" + "&".join(f"metadata[{number}]=x" for number in range(17))),
    ("GET", f"{JOBS}/ftjob-x"),
    ("GET", f"{JOBS}/" + "x" * 5000),
    ("GET", f"{JOBS}/%2e%2e/events"),
    ("GET", f"{JOBS}/ftjob-x/events?limit=0"),
    ("POST", f"{JOBS}/ftjob-x/cancel"),
    ("POST", f"{JOBS}/ftjob-x/resume"),
]


@pytest.fixture(scope="module")
def tuning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TuningService]:
    service = make_service(tmp_path_factory.mktemp("tuning") / "tuning", RecordingAdapters())
    yield service
    service.close()


@pytest.fixture(scope="module")
def tuning_client(tuning: TuningService) -> FlaskClient:
    """One for all tests: no request changes what it stores."""
    services = Services(tuning=tuning)
    return create_app(make_models(FakeBackend()), ServerSettings(), services=services).test_client()


@pytest.fixture(scope="module")
def check(tuning_client: FlaskClient, tuning: TuningService) -> Callable[[Any], None]:
    """Asserts that a response is an error of the client in OpenAI's shape, and that nothing was stored."""

    def check_response(response: Any) -> None:
        assert 400 <= response.status_code < 500, response.text[:300]
        error = response.get_json()["error"]
        assert error.keys() >= {"message", "type", "param", "code"}
        assert 0 < len(error["message"]) < 1000 and "Traceback" not in error["message"]
        assert tuning.jobs.list(limit=1).values == []
        assert list((tuning.folder / "jobs").iterdir()) == []
        assert not list((tuning.folder / "files").glob(".upload-*"))

    return check_response


@pytest.mark.parametrize("index", range(len(MULTIPART_BODIES)))
def test_a_hostile_form_is_refused(
    tuning_client: FlaskClient, check: Callable[[Any], None], index: int
) -> None:
    data, content_type = MULTIPART_BODIES[index]
    check(tuning_client.post(FILES, data=data, content_type=content_type))


@pytest.mark.parametrize("index", range(len(CONTENTS)))
def test_a_hostile_content_is_refused(
    tuning_client: FlaskClient, check: Callable[[Any], None], index: int
) -> None:
    form_data = {"purpose": "fine-tune", "file": (io.BytesIO(CONTENTS[index]), "a.jsonl")}
    response = tuning_client.post(FILES, data=form_data)
    check(response)
    assert response.get_json()["error"]["param"] == "file"


@pytest.mark.parametrize("index", range(len(JOB_FIELDS)))
def test_a_hostile_field_is_refused(
    tuning_client: FlaskClient, tuning: TuningService, check: Callable[[Any], None], index: int
) -> None:
    body = {"model": "fake/model", "training_file": upload(tuning, ROW)} | JOB_FIELDS[index]
    response = tuning_client.post(JOBS, data=json.dumps(body), content_type="application/json")
    check(response)
    assert "model" in JOB_FIELDS[index] or response.get_json()["error"]["param"]


@pytest.mark.parametrize("body", JOB_BODIES, ids=range(len(JOB_BODIES)))
def test_a_hostile_body_is_refused(
    tuning_client: FlaskClient, check: Callable[[Any], None], body: bytes
) -> None:
    check(tuning_client.post(JOBS, data=body, content_type="application/json"))


@pytest.mark.parametrize(("method", "path"), REQUESTS, ids=range(len(REQUESTS)))
def test_a_hostile_path_is_refused(
    tuning_client: FlaskClient, check: Callable[[Any], None], method: str, path: str
) -> None:
    check(tuning_client.open(path, method=method))
