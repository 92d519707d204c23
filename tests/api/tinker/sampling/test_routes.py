"""The routes of sampling: ids, retries, results, the poll for a whole session, cancelling."""

import time
from typing import Any

import pytest
from flask.testing import FlaskClient

from api.tinker.sampling import samples
from tests.api.tinker.scripted_runs import ADAPTER, CHECKPOINT, SAMPLER, SESSION, SNAPSHOT, ScriptedRuns
from tests.fakes.fake_backend import FakeBackend, say
from tests.timeouts import TIMEOUT_S

PROTOBUF = "application/x-protobuf"
PROMPT = {"chunks": [{"tokens": [1, 2, 3], "type": "encoded_text"}]}


def sample(api: FlaskClient, seq_id: int = 0, sampler: str = SAMPLER, **fields: Any) -> Any:
    body = {"sampling_session_id": sampler, "seq_id": seq_id, "prompt": PROMPT, "sampling_params": {}}
    return api.post("/api/v1/asample", json=body | fields).json


def fetch(api: FlaskClient, request_id: str) -> Any:
    return api.post("/api/v1/retrieve_future", json={"request_id": request_id})


def poll(
    api: FlaskClient, cursor: int = 0, timeout: float = TIMEOUT_S, clone: int = 0, done: Any = ()
) -> Any:
    target = {"type": "sampling_session", "sampling_session_id": SAMPLER, "cloned_sampler_id": clone}
    body = {"target": target, "prev_cursor": cursor, "timeout": timeout, "retrieved_request_ids": list(done)}
    return api.post("/api/v1/retrieve_futures", json=body).json


def wait_for_ends(api: FlaskClient, num_ends: int) -> Any:
    """What a poll reports once so many requests have ended."""
    while len((reply := poll(api))["completions"]) < num_ends:
        pass
    return reply


def test_a_sample_is_promised_and_fetched(api: FlaskClient) -> None:
    reply = sample(api, 5)
    assert reply["request_id"] == f"{SAMPLER}:5" and reply["sample_sequence_ids"] == [f"{SAMPLER}:5:0"]
    result = fetch(api, reply["request_id"]).json
    assert result["sequences"] == [{"stop_reason": "stop", "tokens": [0, 1], "logprobs": [-0.5, -0.5]}]
    headers = {"Accept": PROTOBUF}
    reply = api.post("/api/v1/retrieve_future", json={"request_id": f"{SAMPLER}:5"}, headers=headers)
    assert reply.content_type == PROTOBUF


def test_the_same_request_again_samples_once(api: FlaskClient, fake_backend: FakeBackend) -> None:
    assert sample(api, 1) == sample(api, 1)
    assert len(fake_backend.requests) == 1
    sample(api, 2)
    assert len(fake_backend.requests) == 2


def test_a_snapshot_samples_with_its_adapter(api: FlaskClient, fake_backend: FakeBackend) -> None:
    sample(api, 0, SNAPSHOT)
    sample(api, 1, SAMPLER)
    assert [request.adapter for request in fake_backend.requests] == [ADAPTER, None]


def test_a_model_can_be_named_in_place_of_a_session(api: FlaskClient, fake_backend: FakeBackend) -> None:
    body = {"prompt": PROMPT, "sampling_params": {}}
    for name in ({"model_path": CHECKPOINT}, {"base_model": "fake/model"}):
        request_id = api.post("/api/v1/asample", json=body | name).json["request_id"]
        assert fetch(api, request_id).json["type"] == "sample"
    assert [each.adapter for each in fake_backend.requests] == [ADAPTER, None]
    assert api.post("/api/v1/asample", json=body | {"model_path": "tinker://none"}).status_code == 404
    assert "must be there" in api.post("/api/v1/asample", json=body).json["detail"]


def test_a_sample_that_a_restart_lost_is_gone(api: FlaskClient) -> None:
    assert fetch(api, f"{SAMPLER}:77").status_code == 410


def test_a_refused_sample_promises_nothing(api: FlaskClient, fake_backend: FakeBackend) -> None:
    assert "num_samples" in sample(api, num_samples=0)["detail"]
    assert fetch(api, f"{SAMPLER}:0").status_code == 410 and not fake_backend.requests


def test_one_poll_reports_the_ends_of_a_session(api: FlaskClient) -> None:
    assert poll(api, timeout=0) == {"completions": [], "cursor": 0}
    for seq_id in (0, 1):
        fetch(api, sample(api, seq_id)["request_id"])
    first = wait_for_ends(api, 2)
    ids = [f"{SAMPLER}:0", f"{SAMPLER}:1"]
    assert [each["request_id"] for each in first["completions"]] == ids
    assert {each["state"] for each in first["completions"]} == {"finished"}
    again = poll(api)
    assert again == first, "a completion is reported until the client returns its cursor"
    assert poll(api, first["cursor"], timeout=0, done=ids) == {"completions": [], "cursor": first["cursor"]}
    assert fetch(api, ids[0]).status_code == 410, "the client had it"


def test_clones_of_a_client_poll_for_their_own_requests(api: FlaskClient) -> None:
    fetch(api, sample(api, 2 * 10**9 + 3)["request_id"])
    assert poll(api, timeout=0)["completions"] == []
    assert [each["request_id"] for each in poll(api, clone=2)["completions"]] == [
        f"{SAMPLER}:{2 * 10**9 + 3}"
    ]


def test_a_client_that_joins_gets_the_number_of_its_clone(api: FlaskClient) -> None:
    reply = api.post("/api/v1/join_sampling_session", json={"sampling_session_id": SAMPLER}).json
    assert reply["client_counter"] == 7


def test_a_poll_reports_what_a_restart_lost(api: FlaskClient, runs: ScriptedRuns) -> None:
    lost, own = f"{SAMPLER}:3", f"{SAMPLER}:4"
    runs.pending_samples.add(lost, SAMPLER, 0)
    first = poll(api)
    assert first["completions"] == [{"state": "failed", "request_id": lost}]
    assert fetch(api, lost).status_code == 410, "the client sends it again"
    sample(api, 4)
    assert [each["request_id"] for each in poll(api, first["cursor"])["completions"]] == [own]
    assert runs.pending_samples.ids(SAMPLER, 0) == [own]
    fetch(api, own)
    assert runs.pending_samples.ids(SAMPLER, 0) == []


def test_a_cancelled_request_fails_and_stops_to_sample(api: FlaskClient, fake_backend: FakeBackend) -> None:
    fake_backend.script = say(*"abc", pause_s=60)
    request_id = sample(api)["request_id"]
    assert api.post("/api/v1/cancel_future", json={"request_id": request_id}).json == {}
    assert fetch(api, request_id).json == {"error": "the request was cancelled", "category": "user"}
    assert poll(api)["completions"] == [{"state": "failed", "request_id": request_id}]
    assert not fake_backend.open_streams
    assert api.post("/api/v1/cancel_future", json={"request_id": "unknown"}).json == {}


def test_a_poll_ends_with_its_timeout(api: FlaskClient) -> None:
    start = time.monotonic()
    poll(api, timeout=0.05)
    assert 0.05 <= time.monotonic() - start < TIMEOUT_S


@pytest.mark.parametrize("seq_id", [-1, None, 1 << 63])
def test_a_request_needs_a_number(api: FlaskClient, seq_id: int | None) -> None:
    assert "seq_id" in sample(api, seq_id=seq_id)["detail"]


def test_a_sampling_session_is_shown(api: FlaskClient) -> None:
    card = {"sampler_id": SAMPLER, "base_model": "fake/model", "model_path": None}
    assert api.get(f"/api/v1/samplers/{SAMPLER}").json == card
    assert api.get(f"/api/v1/samplers/{SESSION}").status_code == 404


def test_unfetched_results_are_bounded(
    api: FlaskClient, fake_backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "MAX_RESULT_BYTES", 3 * samples.FAILURE_BYTES)
    ids = [sample(api, seq_id)["request_id"] for seq_id in range(8)]
    wait_for_ends(api, 8)
    ids.append(sample(api, 8)["request_id"])
    statuses = [fetch(api, request_id).status_code for request_id in ids]
    assert statuses[0] == 410 and statuses[-2:] == [200, 200]
    assert statuses == sorted(statuses, reverse=True), "the oldest are forgotten first"
    assert sample(api, 0)["request_id"] == ids[0]
    assert fetch(api, ids[0]).status_code == 200, "a client that wants a forgotten result sends it again"
