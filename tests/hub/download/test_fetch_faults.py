"""Faults between the Hub and this process: in the end the model is right, or the error says why it is not."""

import io
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hub.client import Hub
from hub.download.progress import Progress
from hub.download.retry import RetryPolicy
from hub.repository import RepoFile, Repository
from inference.finding import Finding, Refused
from tests.fakes import fake_hub
from tests.fakes.fake_hub_faults import (
    Chunked,
    Crowded,
    Disconnect,
    ErrorStatus,
    Flip,
    HubFault,
    IgnoredRanges,
    Redirect,
    Short,
    Stall,
    Throttled,
)
from tests.hub.download.conftest import PIECE_BYTES, SIZE, WEIGHTS

FetchModel = Callable[..., Path]
CompleteCheck = Callable[[Path], bool]


def refusal(fetch_model: FetchModel, *args: Repository, **changes: object) -> Finding:
    with pytest.raises(Refused) as caught:
        fetch_model(*args, **changes)
    return caught.value.finding


@pytest.mark.parametrize(
    "fault",
    [
        Disconnect(at=30_000, times=5),
        Disconnect(at=0, times=3),
        Stall(at=250_000, times=4),
        Short(by=100, times=5),
        Flip(times=1),
        ErrorStatus(500, times=3),
        ErrorStatus(502, times=3),
        ErrorStatus(503, times=3),
        ErrorStatus(429, times=3),
        IgnoredRanges(),
        IgnoredRanges(times=2),
        Redirect("http://[::bad", times=3),
        Chunked(),
    ],
    ids=repr,
)
def test_a_temporary_fault_is_survived(
    repo: fake_hub.Repo,
    fetch_model: FetchModel,
    is_complete: CompleteCheck,
    fault: HubFault,
    fake: fake_hub.FakeHub,
) -> None:
    repo.faults[WEIGHTS] = fault
    assert is_complete(fetch_model())


def test_bytes_received_before_a_disconnect_are_not_requested_again(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, fetch_model: FetchModel, is_complete: CompleteCheck
) -> None:
    repo.faults[WEIGHTS] = Disconnect(at=30_000, times=4)
    assert is_complete(fetch_model())
    assert sum(request.sent for request in fake.gets_of(WEIGHTS)) == SIZE


def test_a_file_of_one_piece_resumes_where_it_was_cut(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, fetch_model: FetchModel, is_complete: CompleteCheck
) -> None:
    repo.faults["tokenizer.json"] = Disconnect(at=1500, times=1)
    assert is_complete(fetch_model())
    assert [request.range for request in fake.gets_of("tokenizer.json")] == ["", "bytes=1500-2001"]


def test_a_corrupt_file_is_fetched_twice_more_and_then_refused(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, fetch_model: FetchModel
) -> None:
    repo.faults[WEIGHTS] = Flip()
    finding = refusal(fetch_model)
    assert sum(request.sent for request in fake.gets_of(WEIGHTS)) == 3 * SIZE
    assert "a different hash, 3 times" in finding.have and "HF_ENDPOINT" in finding.fix


def test_a_corrupt_small_file_is_detected_by_its_git_hash(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, fetch_model: FetchModel, is_complete: CompleteCheck
) -> None:
    (repo.folder / "chat_template.jinja").write_text("{{ messages }}")
    repo.faults["chat_template.jinja"] = Flip(times=1)
    assert is_complete(fetch_model())
    assert len(fake.gets_of("chat_template.jinja")) == 2


def test_retries_end_if_nothing_arrives(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, fetch_model: FetchModel
) -> None:
    repo.faults[WEIGHTS] = ErrorStatus(503)
    finding = refusal(fetch_model, num_connections=1)
    assert finding.have == f"{fake.url} answers 503: boom"
    assert "start again" in finding.fix
    assert len(fake.gets_of(WEIGHTS)) == 4


def test_retries_start_over_after_every_byte(
    repo: fake_hub.Repo, fetch_model: FetchModel, is_complete: CompleteCheck
) -> None:
    repo.faults[WEIGHTS] = Disconnect(at=10_000, times=30)
    assert is_complete(fetch_model(num_connections=1))


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("http://[::bad", "does not answer (Invalid IPv6 URL)"),
        ("file:///etc/passwd", "file:// does not answer"),
        ("//", "redirects too often"),
    ],
)
def test_a_redirect_to_no_server_is_refused(
    target: str, reason: str, repo: fake_hub.Repo, fetch_model: FetchModel
) -> None:
    repo.faults[WEIGHTS] = Redirect(target)
    assert reason in refusal(fetch_model).have


def test_a_server_that_allows_fewer_connections_does_not_end_the_fetch(
    repo: fake_hub.Repo, fetch_model: FetchModel, is_complete: CompleteCheck
) -> None:
    repo.faults[WEIGHTS] = Crowded(places=1)
    assert is_complete(
        fetch_model(num_connections=4, retry_policy=RetryPolicy(max_tries=4, min_wait_s=0.1, max_wait_s=0.1))
    )


@pytest.mark.parametrize("headers", [{"Retry-After": "1"}, {"RateLimit": '"resolvers";r=0;t=1'}], ids=str)
def test_retry_after_of_a_server_is_respected(
    repo: fake_hub.Repo, fetch_model: FetchModel, is_complete: CompleteCheck, headers: dict[str, str]
) -> None:
    repo.faults[WEIGHTS] = ErrorStatus(429, headers, times=4)
    started_at = time.monotonic()
    assert is_complete(fetch_model())
    assert time.monotonic() - started_at >= 1


def test_a_stall_is_reported(repo: fake_hub.Repo, fetch_model: FetchModel) -> None:
    repo.faults[WEIGHTS] = Stall(at=450_000)
    finding = refusal(fetch_model, retry_policy=RetryPolicy(max_tries=2, min_wait_s=0.01), timeout_s=0.5)
    assert "no response for 0.5 s" in finding.have
    assert finding.fix == "start again: 452.0 kB are kept"


def test_a_slow_connection_shows_its_rate_and_the_time_left(
    repo: fake_hub.Repo, fetch_model: FetchModel, is_complete: CompleteCheck
) -> None:
    output = io.StringIO()
    repo.faults[WEIGHTS] = Throttled(rate=500_000)
    assert is_complete(fetch_model(num_connections=1, progress=Progress(output, width=lambda: 120)))
    assert re.search(r" kB/s, [1-9] s left", output.getvalue())


def test_a_server_without_ranges_sends_the_whole_file(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, fetch_model: FetchModel, is_complete: CompleteCheck
) -> None:
    repo.faults[WEIGHTS] = IgnoredRanges()
    assert is_complete(fetch_model())
    assert "" in [get.range for get in fake.gets_of(WEIGHTS)]  # others of ranges are under way meanwhile


def test_the_token_is_sent_only_to_the_hub(
    fake: fake_hub.FakeHub,
    repo: fake_hub.Repo,
    fetch_model: FetchModel,
    is_complete: CompleteCheck,
    look_up: Callable[..., Repository],
) -> None:
    repo.on_other_host = True
    assert is_complete(fetch_model(token=fake_hub.TOKEN))
    weight_requests = [request for request in fake.requests if WEIGHTS in request.what]
    assert {request.host.partition(":")[0] for request in weight_requests} == {"127.0.0.1", "localhost"}
    assert all(bool(request.token) == request.host.startswith("127.0.0.1") for request in weight_requests)


def test_a_signed_address_that_has_expired_is_requested_again(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, fetch_model: FetchModel, is_complete: CompleteCheck
) -> None:
    repo.on_other_host = True
    repo.faults[WEIGHTS] = ErrorStatus(403, times=1)
    assert is_complete(fetch_model(num_connections=1))
    targets = [request.what for request in fake.requests if WEIGHTS in request.what]
    assert sum("/resolve/" in what for what in targets) == 2


def test_a_signed_address_that_expires_for_all_connections_is_no_denial(
    repo: fake_hub.Repo, fetch_model: FetchModel, is_complete: CompleteCheck
) -> None:
    repo.on_other_host = True
    repo.faults[WEIGHTS] = ErrorStatus(403, times=6)
    assert is_complete(fetch_model(num_connections=4))


def test_connections_are_reused(fake: fake_hub.FakeHub, repo: fake_hub.Repo, fetch_model: FetchModel) -> None:
    fetch_model(num_connections=1)
    assert len({request.connection for request in fake.gets_of(WEIGHTS)}) == 1
    assert len(fake.gets_of(WEIGHTS)) == 11


def test_a_gate_closed_after_the_look_up_is_named(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, fetch_model: FetchModel, look_up: Callable[..., Repository]
) -> None:
    source = look_up("acme/large")
    repo.gated = True
    assert refusal(fetch_model, source).fix.startswith(f"accept the licence at {fake.url}/acme/large")


def test_a_file_that_the_index_names_and_the_hub_lacks_is_refused(
    repo: fake_hub.Repo, fetch_model: FetchModel
) -> None:
    index = '{"weight_map": {"a": "model.safetensors", "b": "lost.safetensors"}}'
    (repo.folder / "model.safetensors.index.json").write_text(index)
    assert refusal(fetch_model).have == "a file of the model is missing"


def test_a_hub_that_goes_down_is_named(
    repo: fake_hub.Repo, fetch_model: FetchModel, look_up: Callable[..., Repository]
) -> None:
    source = look_up("acme/large")
    with fake_hub.running() as stopped_hub:
        url = stopped_hub.url
    finding = refusal(fetch_model, source, endpoint=url)
    assert finding.have == f"{url} does not answer (connection refused)"


def test_a_proxy_is_used(
    fake: fake_hub.FakeHub,
    repo: fake_hub.Repo,
    client: Hub,
    fetch_model: FetchModel,
    look_up: Callable[..., Repository],
    is_complete: CompleteCheck,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", fake.url)
    monkeypatch.setenv("NO_PROXY", "")
    behind = "http://hub.invalid"
    source = look_up("acme/large")
    assert is_complete(fetch_model(source, endpoint=behind))
    assert {request.host for request in fake.gets_of(WEIGHTS)} == {"hub.invalid"}


@pytest.mark.parametrize(
    ("name", "etag"),
    [("../model.safetensors", "a" * 64), ("/model.safetensors", "a" * 64), (WEIGHTS, "../a")],
)
def test_file_names_outside_of_the_model_are_refused(
    fake: fake_hub.FakeHub,
    repo: fake_hub.Repo,
    fetch_model: FetchModel,
    look_up: Callable[..., Repository],
    name: str,
    etag: str,
) -> None:
    source = look_up("acme/large")
    evil = replace(source, files=(RepoFile(name, 7, False, etag),), names=(name,))
    assert "cannot be trusted" in refusal(fetch_model, evil).fix


def test_resuming_with_smaller_pieces_works(
    repo: fake_hub.Repo, fetch_model: FetchModel, is_complete: CompleteCheck
) -> None:
    repo.faults[WEIGHTS] = Stall(at=5 * PIECE_BYTES, times=12)
    refusal(fetch_model, retry_policy=RetryPolicy(max_tries=1))
    repo.faults.clear()
    assert is_complete(fetch_model(piece_bytes=PIECE_BYTES // 3))
