"""Batches from creation to their result files: answers, errors, cancellation, expiry, several at a time."""

import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from api.batches import service
from api.store.store import Store
from inference.errors import Overloaded, ServerError
from inference.models import ModelEntry, Models
from inference.types import GenerationRequest
from tests.api.batches.batch_server import NUM_SLOTS, BatchServer, request_line, serving
from tests.fakes.fake_backend import FakeAdapters, FakeBackend, Script, say


def test_a_batch_of_chats_is_run(server: BatchServer) -> None:
    created = server.create(request_line("a"), request_line("b"), metadata={"job": "night"})
    assert (created["object"], created["status"], created["endpoint"]) == (
        "batch",
        "validating",
        "/v1/chat/completions",
    )
    assert created["request_counts"] == {"total": 0, "completed": 0, "failed": 0}
    assert created["expires_at"] == created["created_at"] + 24 * 3600
    batch = server.finish(created["id"])
    assert (batch["status"], batch["errors"], batch["error_file_id"]) == ("completed", None, None)
    assert batch["request_counts"] == {"total": 2, "completed": 2, "failed": 0}
    assert batch["metadata"] == {"job": "night"} and batch["completion_window"] == "24h"
    assert batch["created_at"] <= batch["in_progress_at"] <= batch["finalizing_at"] <= batch["completed_at"]
    usage = batch["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (6, 4, 10)
    results = server.results(batch["output_file_id"])
    assert results.keys() == {"a", "b"}
    line = results["a"]
    assert line["id"].startswith("batch_req_") and line["error"] is None
    assert line["response"]["status_code"] == 200 and line["response"]["request_id"]
    assert line["response"]["body"]["choices"][0]["message"]["content"] == "Hello world"
    file = server.client.get(f"/v1/files/{batch['output_file_id']}").get_json()
    assert (file["purpose"], file["filename"]) == ("batch_output", f"{batch['id']}_output.jsonl")
    assert list((server.folder / "batches").iterdir()) == []


@pytest.mark.parametrize(
    ("endpoint", "body", "object_name", "num_output"),
    [
        ("/v1/completions", {"prompt": ["one", "two"]}, "text_completion", 4),
        ("/v1/responses", {"input": "one"}, "response", 2),
        ("/v1/embeddings", {"input": ["one", "one two"]}, "list", 0),
    ],
)
def test_each_endpoint_is_run(
    server: BatchServer, endpoint: str, body: dict[str, object], object_name: str, num_output: int
) -> None:
    batch = server.run(request_line("a", endpoint, **body), endpoint=endpoint)
    assert batch["status"] == "completed"
    body = server.results(batch["output_file_id"])["a"]["response"]["body"]
    assert body["object"] == object_name
    assert batch["usage"]["output_tokens"] == num_output and batch["usage"]["input_tokens"] > 0


def test_a_refused_request_is_in_the_error_file(server: BatchServer) -> None:
    batch = server.run(request_line("good"), request_line("bad", messages="no list"))
    assert batch["status"] == "completed"
    assert batch["request_counts"] == {"total": 2, "completed": 1, "failed": 1}
    assert server.results(batch["output_file_id"]).keys() == {"good"}
    line = server.results(batch["error_file_id"])["bad"]
    assert line["error"] is None and line["response"]["status_code"] == 400
    assert line["response"]["body"]["error"]["param"] == "messages"


def test_a_batch_without_answers_has_no_output_file(server: BatchServer) -> None:
    batch = server.run(request_line("bad", messages=[]))
    assert batch["output_file_id"] is None and server.results(batch["error_file_id"]).keys() == {"bad"}


def test_requests_that_meet_a_full_queue_run_again(tmp_path: Path, backend: FakeBackend) -> None:
    refused = Counter[str]()

    def script(request: GenerationRequest) -> Script:
        name = repr(request.prompt)
        refused[name] += 1
        if refused[name] == 1:
            return [Overloaded(0.001)]
        return say("fine")

    backend.script = script
    with serving(tmp_path / "tuning", backend) as server:
        batch = server.run(*map(request_line, "abcdef"))
    assert batch["request_counts"] == {"total": 6, "completed": 6, "failed": 0}
    assert set(refused.values()) == {2}


def test_only_so_many_requests_run_at_a_time(tmp_path: Path, backend: FakeBackend) -> None:
    may_end = threading.Event()
    backend.script = [may_end, *say("a")]
    with serving(tmp_path / "tuning", backend) as server:
        ids = [server.create(*map(request_line, "abcdef"))["id"] for _ in range(2)]
        server.until(ids[1], lambda batch: batch["status"] == "in_progress")
        wait_for_streams(backend, NUM_SLOTS)
        assert len(backend.requests) == NUM_SLOTS
        may_end.set()
        assert [server.finish(id)["status"] for id in ids] == ["completed"] * 2


def test_batches_take_turns(tmp_path: Path, backend: FakeBackend) -> None:
    gates = [threading.Event() for _ in range(8)]
    backend.script = lambda request: [gates[len(backend.requests) - 1], *say("a")]
    with serving(tmp_path / "tuning", backend, num_slots=1) as server:
        long = server.create(*map(request_line, "abcdef"))["id"]
        wait_for_streams(backend, 1)
        short = server.create(request_line("z"))["id"]
        server.until(short, lambda batch: batch["status"] == "in_progress")
        for gate in gates[:3]:
            gate.set()
        assert server.finish(short)["status"] == "completed"
        assert server.get(long)["request_counts"]["completed"] <= 3
        for gate in gates:
            gate.set()
        server.finish(long)


def wait_for_streams(backend: FakeBackend, count: int) -> None:
    end = time.monotonic() + 60
    while len(backend.open_streams) < count:
        assert time.monotonic() < end
        time.sleep(0.002)


def test_a_cancelled_batch_keeps_what_was_answered(tmp_path: Path, backend: FakeBackend) -> None:
    never = threading.Event()
    backend.script = lambda request: say("a") if "hi a" in repr(request.prompt) else [never]
    with serving(tmp_path / "tuning", backend) as server:
        id = server.create(*map(request_line, "abcdefgh"))["id"]
        server.until(id, lambda batch: batch["request_counts"]["completed"] == 1)
        response = server.client.post(f"/v1/batches/{id}/cancel").get_json()
        assert response["status"] == "cancelling" and response["cancelling_at"]
        batch = server.finish(id)
        assert batch["status"] == "cancelled" and batch["cancelled_at"]
        assert batch["request_counts"] == {"total": 8, "completed": 1, "failed": 0}
        assert server.results(batch["output_file_id"]).keys() == {"a"} and batch["error_file_id"] is None
        end = time.monotonic() + 60
        while len(backend.open_streams) > 1 and time.monotonic() < end:  # that of "a" is closed last
            time.sleep(0.002)
        assert not backend.open_streams
        again = server.client.post(f"/v1/batches/{id}/cancel")
        assert (again.status_code, again.get_json()["status"]) == (200, "cancelled")


def test_a_finished_batch_cannot_be_cancelled(server: BatchServer) -> None:
    batch = server.run(request_line("a"))
    response = server.client.post(f"/v1/batches/{batch['id']}/cancel")
    assert response.status_code == 409
    assert response.get_json()["error"]["message"] == "Cannot cancel a batch with status 'completed'."


def test_requests_that_did_not_run_in_time_have_expired(
    tmp_path: Path, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "WINDOW_S", 1)
    never = threading.Event()
    backend.script = lambda request: say("a") if "hi a" in repr(request.prompt) else [never]
    with serving(tmp_path / "tuning", backend) as server:
        batch = server.run(*map(request_line, "abcdefgh"))
        assert batch["status"] == "expired" and batch["expired_at"] >= batch["expires_at"]
        assert batch["request_counts"] == {"total": 8, "completed": 1, "failed": 7}
        line = server.results(batch["error_file_id"])["h"]
        assert line["response"] is None and line["error"]["code"] == "batch_expired"


def test_each_request_names_its_model_or_adapter(tmp_path: Path, backend: FakeBackend) -> None:
    backend.lora = FakeAdapters("poet")
    other = FakeBackend(say("other"), model_id="other/model")
    models = Models(ModelEntry(backend, ("fake/model",)), ModelEntry(other, ("other/model",)))
    with serving(tmp_path / "tuning", backend, models=models) as server:
        messages = [{"role": "user", "content": "hi"}]
        names = ["fake/model", "poet", "other/model"]
        lines = [request_line(name, messages=messages, model=name) for name in names]
        batch = server.run(*lines)
        assert batch["model"] is None
        results = server.results(batch["output_file_id"])
        assert [results[name]["response"]["body"]["model"] for name in names] == names
        assert [request.adapter for request in backend.requests] == [None, "poet"]
        assert server.run(*lines[1:2])["model"] == "poet"


def test_a_response_is_stored_for_the_creator_of_the_batch(tmp_path: Path, backend: FakeBackend) -> None:
    store = Store(tmp_path / "responses.db", max_bytes=10**8, max_age_s=3600)
    with serving(tmp_path / "tuning", backend, store=store, api_keys=("mine", "yours")) as server:
        server.client.environ_base["HTTP_AUTHORIZATION"] = "Bearer mine"
        batch = server.run(request_line("a", "/v1/responses", input="hi"), endpoint="/v1/responses")
        id = server.results(batch["output_file_id"])["a"]["response"]["body"]["id"]
        assert server.client.get(f"/v1/responses/{id}").status_code == 200
        server.client.environ_base["HTTP_AUTHORIZATION"] = "Bearer yours"
        assert server.client.get(f"/v1/responses/{id}").status_code == 404
    store.close()


def test_batches_do_not_count_as_concurrent_requests(tmp_path: Path, backend: FakeBackend) -> None:
    with serving(tmp_path / "tuning", backend, max_concurrent_requests=1) as server:
        may_end = threading.Event()
        backend.script = [may_end, *say("a")]
        id = server.create(*map(request_line, "abc"))["id"]
        wait_for_streams(backend, 3)
        backend.script = say("b")
        chat = {"messages": [{"role": "user", "content": "hi"}]}
        assert server.client.post("/v1/chat/completions", json=chat).status_code == 200
        may_end.set()
        assert server.finish(id)["request_counts"]["completed"] == 3


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/completions", {"prompt": "one"}),
        ("/v1/responses", {"input": "one"}),
    ],
)
def test_their_requests_run_in_the_background_without_a_timeout(
    tmp_path: Path, backend: FakeBackend, endpoint: str, body: dict[str, object]
) -> None:
    with serving(tmp_path / "tuning", backend, request_timeout_s=5.0) as server:
        server.run(request_line("a", endpoint, **body), endpoint=endpoint)
        assert server.client.post(endpoint, json=body).status_code == 200
    of_batch, other = backend.requests
    assert (of_batch.in_background, of_batch.deadline) == (True, None)
    assert (other.in_background, other.deadline) == (False, 5.0)


def test_their_embeddings_are_computed_in_the_background(server: BatchServer, backend: FakeBackend) -> None:
    server.run(request_line("a", "/v1/embeddings", input="one"), endpoint="/v1/embeddings")
    assert server.client.post("/v1/embeddings", json={"input": "one"}).status_code == 200
    assert backend.embeddings_in_background == [True, False]


def test_an_error_of_the_server_is_a_result(tmp_path: Path, backend: FakeBackend) -> None:
    backend.script = [*say("half")[:2], ServerError("it broke")]
    with serving(tmp_path / "tuning", backend) as server:
        batch = server.run(request_line("a"))
        line = server.results(batch["error_file_id"])["a"]
    assert line["response"]["status_code"] == 500
    assert line["response"]["body"]["error"]["message"] == "it broke"


def test_the_input_file_may_be_deleted_while_its_requests_run(tmp_path: Path, backend: FakeBackend) -> None:
    may_end = threading.Event()
    backend.script = [may_end, *say("a")]
    with serving(tmp_path / "tuning", backend) as server:
        created = server.create(*map(request_line, "abcdefgh"))
        assert server.client.delete(f"/v1/files/{created['input_file_id']}").status_code == 200
        may_end.set()
        assert server.finish(created["id"])["request_counts"]["completed"] == 8


def test_results_expire_if_the_batch_says_so(server: BatchServer) -> None:
    batch = server.run(request_line("a"), output_expires_after={"anchor": "created_at", "seconds": 3600})
    file = server.client.get(f"/v1/files/{batch['output_file_id']}").get_json()
    assert file["expires_at"] == file["created_at"] + 3600


def test_batches_are_counted(server: BatchServer) -> None:
    server.run(request_line("a"), request_line("bad", messages=[]))
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in server.batches.metrics.collect()
        for sample in metric.samples
    }
    assert samples["hearth_batches", "completed"] == 1 and samples["hearth_batches", "failed"] == 0
    assert samples["hearth_batch_requests_total", "completed"] == 1
    assert samples["hearth_batch_requests_total", "failed"] == 1
    assert samples["hearth_batch_requests_unfinished",] == 0


def test_a_large_answer_is_one_line(tmp_path: Path, backend: FakeBackend) -> None:
    text = "line\nof text " * 10_000
    backend.script = say(text)
    with serving(tmp_path / "tuning", backend) as server:
        batch = server.run(request_line("a"))
        body = server.results(batch["output_file_id"])["a"]["response"]["body"]
    assert body["choices"][0]["message"]["content"] == text
