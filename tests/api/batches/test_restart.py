"""Batches after the end of their server, orderly or by a kill: nothing is lost, and nothing runs twice."""

import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api import create_app
from api.batches import queue, service
from api.batches.batch_run import BatchRun
from api.batches.service import Batches
from api.server.app_request_runner import AppRequestRunner
from api.services import Services
from inference.types import GenerationRequest
from settings.groups import ServerSettings
from tests.api.batches.batch_server import BatchServer, request_line, running_loop, serving
from tests.fakes.fake_backend import FakeBackend, Script, make_models, say
from tests.tuning.scripted_service import RecordingAdapters, make_service

NAMES = "abcdef"
NEVER = threading.Event()


def runs_of(backend: FakeBackend) -> Counter[str]:
    """How often the request of each name was run."""
    return Counter(
        name for request in backend.requests for name in NAMES if f"hi {name}" in repr(request.prompt)
    )


def answers_only(*names: str) -> Callable[[GenerationRequest], Script]:
    def script(request: GenerationRequest) -> Script:
        is_answered = any(f"hi {name}" in repr(request.prompt) for name in names)
        return say("fine") if is_answered else [NEVER]

    return script


def begin(server: BatchServer, num_answered: int) -> str:
    id: str = server.create(*map(request_line, NAMES))["id"]
    server.until(id, lambda batch: batch["request_counts"]["completed"] == num_answered)
    return id


def check_completed(server: BatchServer, id: str) -> Any:
    batch = server.finish(id)
    assert batch["status"] == "completed"
    assert batch["request_counts"] == {"total": 6, "completed": 6, "failed": 0}
    assert batch["usage"]["total_tokens"] == 6 * 4
    assert server.results(batch["output_file_id"]).keys() == set(NAMES)
    return batch


def test_a_batch_goes_on_after_a_restart(tmp_path: Path, backend: FakeBackend) -> None:
    backend.script = answers_only("a", "b")
    with serving(tmp_path / "tuning", backend) as server:
        id = begin(server, 2)
    backend.script = say("fine")
    with serving(tmp_path / "tuning", backend) as server:
        check_completed(server, id)
    assert runs_of(backend)["a"] == runs_of(backend)["b"] == 1


def test_a_killed_server_loses_nothing(tmp_path: Path, backend: FakeBackend) -> None:
    """The copy of the folder is what a kill leaves behind."""
    backend.script = answers_only("a", "b")
    with serving(tmp_path / "tuning", backend) as server:
        id = begin(server, 2)
        shutil.copytree(tmp_path / "tuning", tmp_path / "copy")
    with (tmp_path / "copy" / "batches" / id / "output.jsonl").open("ab") as file:
        file.write(b'{"id":"batch_req_x_3","custom_id":"c","resp')
    backend.script = say("fine")
    with serving(tmp_path / "copy", backend) as server:
        check_completed(server, id)
    assert runs_of(backend)["a"] == runs_of(backend)["b"] == 1


def test_a_kill_while_the_results_become_files_makes_no_second_file(
    tmp_path: Path, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.script = say("fine")
    copied = threading.Event()

    def copy_then_store(*args: Any) -> Any:
        file_ids = store_results(*args)
        if not copied.is_set():
            shutil.copytree(tmp_path / "tuning", tmp_path / "copy")
            copied.set()
        return file_ids

    store_results = queue.store_results
    monkeypatch.setattr(queue, "store_results", copy_then_store)
    with serving(tmp_path / "tuning", backend) as server:
        first = check_completed(server, server.create(*map(request_line, NAMES))["id"])
    with serving(tmp_path / "copy", backend) as server:
        second = check_completed(server, first["id"])
        assert second["output_file_id"] == first["output_file_id"]
        files = server.client.get("/v1/files?purpose=batch_output").get_json()["data"]
        assert [file["id"] for file in files] == [first["output_file_id"]]
    assert set(runs_of(backend).values()) == {1}


def test_a_batch_that_was_to_be_cancelled_is(
    tmp_path: Path, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.script = answers_only("a")
    with serving(tmp_path / "tuning", backend) as server:
        id = begin(server, 1)
        with monkeypatch.context() as patch:
            patch.setattr(server.batches._queue, "_follow", lambda run: None)  # killed before the end
            server.client.post(f"/v1/batches/{id}/cancel")
            shutil.copytree(tmp_path / "tuning", tmp_path / "copy")
    with serving(tmp_path / "copy", backend) as server:
        batch = server.finish(id)
        assert batch["status"] == "cancelled" and batch["request_counts"]["completed"] == 1
        assert server.results(batch["output_file_id"]).keys() == {"a"}


def test_a_batch_expires_while_its_server_is_off(
    tmp_path: Path, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.script = answers_only("a")
    with serving(tmp_path / "tuning", backend) as server:
        id = begin(server, 1)
        expires = server.get(id)["expires_at"]
    monkeypatch.setattr(queue.time, "time", lambda: expires + 1)
    backend.script = say("late")
    with serving(tmp_path / "tuning", backend) as server:
        batch = server.finish(id)
    assert batch["status"] == "expired"
    assert batch["request_counts"] == {"total": 6, "completed": 1, "failed": 5}


def test_a_batch_that_was_created_before_the_start_is_validated(tmp_path: Path, backend: FakeBackend) -> None:
    backend.script = say("fine")
    with serving(tmp_path / "tuning", backend) as server:
        server.batches.stop()
        server.batches._queue._thread.join()
        id = server.create(*map(request_line, NAMES))["id"]
        assert server.get(id)["status"] == "validating"
    with serving(tmp_path / "tuning", backend) as server:
        check_completed(server, id)


def test_leftovers_of_a_kill_are_removed(tmp_path: Path, backend: FakeBackend) -> None:
    with serving(tmp_path / "tuning", backend):
        pass
    (tmp_path / "tuning" / "batches" / "batch_of_no_row").mkdir()
    with serving(tmp_path / "tuning", backend):
        assert list((tmp_path / "tuning" / "batches").iterdir()) == []


def test_a_folder_that_is_gone_fails_its_batch_alone(tmp_path: Path, backend: FakeBackend) -> None:
    backend.script = answers_only()
    with serving(tmp_path / "tuning", backend) as server:
        ids = [begin(server, 0), begin(server, 0)]
    shutil.rmtree(tmp_path / "tuning" / "batches" / ids[0])
    backend.script = say("fine")
    with serving(tmp_path / "tuning", backend) as server:
        failed = server.finish(ids[0])
        assert failed["status"] == "failed" and failed["errors"]["data"][0]["code"] == "server_error"
        assert str(tmp_path) not in repr(failed)
        check_completed(server, ids[1])


def test_an_error_of_ours_fails_its_batch_and_keeps_what_was_answered(
    tmp_path: Path, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.script = say("fine")
    record = BatchRun.record

    def fail_later(run: BatchRun, *args: Any) -> None:
        if len(run.results.answered) == 2:
            raise ValueError("a bug")
        record(run, *args)

    monkeypatch.setattr(BatchRun, "record", fail_later)
    with serving(tmp_path / "tuning", backend) as server:
        batch = server.finish(server.create(*map(request_line, NAMES))["id"])
        assert batch["status"] == "failed" and batch["errors"]["data"][0]["code"] == "server_error"
        assert "a bug" not in repr(batch)
        assert len(server.results(batch["output_file_id"])) == 2
        assert list((server.folder / "batches").iterdir()) == []


def test_a_batch_outlives_a_loop_that_is_closed_too_early(tmp_path: Path, backend: FakeBackend) -> None:
    backend.script = answers_only("a")
    tuning = make_service(tmp_path / "tuning", RecordingAdapters())
    batches = Batches(tuning.folder, tuning.files, make_models(backend), 100_000, num_slots=4)
    services = Services(tuning=tuning, batches=batches)
    app = create_app(make_models(backend), ServerSettings(), services=services)
    with running_loop() as loop:
        pass
    server = BatchServer(app.test_client(), batches, tuning)
    id = server.create(*map(request_line, NAMES))["id"]
    batches.start(AppRequestRunner(app, loop))
    server.until(id, lambda batch: batch["status"] == "in_progress")
    batches.close()
    tuning.close()
    backend.script = say("fine")
    with serving(tmp_path / "tuning", backend) as server:
        check_completed(server, id)


def test_a_full_disk_delays_a_batch(
    tmp_path: Path, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.script = say("fine")
    monkeypatch.setattr(queue, "RETRY_S", 0.01)
    num_failures = iter(range(3))
    record = BatchRun.record

    def fail_first(*args: Any) -> None:
        if next(num_failures, None) is not None:
            raise OSError(28, "No space left on device")
        record(*args)

    monkeypatch.setattr(BatchRun, "record", fail_first)
    with serving(tmp_path / "tuning", backend) as server:
        check_completed(server, server.create(*map(request_line, NAMES))["id"])
    assert set(runs_of(backend).values()) == {1}


def test_the_requests_of_a_removed_key_are_refused(tmp_path: Path, backend: FakeBackend) -> None:
    backend.script = answers_only("a")
    with serving(tmp_path / "tuning", backend, api_keys=("mine", "yours")) as server:
        server.client.environ_base["HTTP_AUTHORIZATION"] = "Bearer mine"
        id = begin(server, 1)
    backend.script = say("fine")
    with serving(tmp_path / "tuning", backend, api_keys=("yours",)) as server:
        server.client.environ_base["HTTP_AUTHORIZATION"] = "Bearer yours"
        batch = server.finish(id)
        assert batch["request_counts"] == {"total": 6, "completed": 1, "failed": 5}
        line = server.results(batch["error_file_id"])["b"]
    assert line["response"]["status_code"] == 401


def test_a_batch_from_before_the_first_key_goes_on(tmp_path: Path, backend: FakeBackend) -> None:
    backend.script = answers_only("a")
    with serving(tmp_path / "tuning", backend) as server:
        id = begin(server, 1)
    backend.script = say("fine")
    with serving(tmp_path / "tuning", backend, api_keys=("first",)) as server:
        server.client.environ_base["HTTP_AUTHORIZATION"] = "Bearer first"
        check_completed(server, id)


def test_no_file_of_a_batch_says_a_key(tmp_path: Path, backend: FakeBackend) -> None:
    backend.script = answers_only("a")
    with serving(tmp_path / "tuning", backend, api_keys=("a-secret",)) as server:
        server.client.environ_base["HTTP_AUTHORIZATION"] = "Bearer a-secret"
        begin(server, 1)
    paths = [path for path in (tmp_path / "tuning").rglob("*") if path.is_file()]
    assert any(path.name == service.DATABASE_FILE for path in paths)
    assert not [path for path in paths if b"a-secret" in path.read_bytes()]
