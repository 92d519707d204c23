"""Whatever goes wrong between the Hub and us: the model is right in the end, or we say why it is not."""

import io
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checks.fetch.patience import Patience
from checks.fetch.progress import Progress
from checks.finding import Finding, Refused
from checks.source.file import File
from checks.source.hub import Hub
from checks.source.repository import Repository
from tests import hub
from tests.checks.fetch.conftest import PIECE, SIZE, WEIGHTS
from tests.hub_faults import Chunked, Crowded, Cut, Fault, Flip, NoRanges, Says, Short, Slow, Stall

Bring = Callable[..., Path]
Whole = Callable[[Path], bool]


def refusal(bring: Bring, *args: Repository, **changes: object) -> Finding:
    with pytest.raises(Refused) as caught:
        bring(*args, **changes)
    return caught.value.finding


@pytest.mark.parametrize(
    "fault",
    [
        Cut(at=30_000, times=5),
        Cut(at=0, times=3),
        Stall(at=250_000, times=4),
        Short(by=100, times=5),
        Flip(times=1),
        Says(500, times=3),
        Says(502, times=3),
        Says(503, times=3),
        Says(429, times=3),
        NoRanges(),
        NoRanges(times=2),
        Chunked(),
    ],
    ids=repr,
)
def test_a_fault_that_passes_is_passed(
    repo: hub.Repo, bring: Bring, whole: Whole, fault: Fault, fake: hub.Hub
) -> None:
    repo.faults[WEIGHTS] = fault
    assert whole(bring())


def test_what_a_cut_leaves_is_not_asked_for_again(
    fake: hub.Hub, repo: hub.Repo, bring: Bring, whole: Whole
) -> None:
    repo.faults[WEIGHTS] = Cut(at=30_000, times=4)
    assert whole(bring())
    assert sum(request.sent for request in fake.got(WEIGHTS)) == SIZE


def test_a_file_of_one_piece_goes_on_where_it_was_cut(
    fake: hub.Hub, repo: hub.Repo, bring: Bring, whole: Whole
) -> None:
    repo.faults["tokenizer.json"] = Cut(at=1500, times=1)
    assert whole(bring())
    assert [request.range for request in fake.got("tokenizer.json")] == ["", "bytes=1500-2001"]


def test_a_file_that_comes_wrong_is_fetched_anew_twice_and_then_refused(
    fake: hub.Hub, repo: hub.Repo, bring: Bring
) -> None:
    repo.faults[WEIGHTS] = Flip()
    finding = refusal(bring)
    assert sum(request.sent for request in fake.got(WEIGHTS)) == 3 * SIZE
    assert "other bytes, 3 times" in finding.have and "HF_ENDPOINT" in finding.mend


def test_a_small_file_that_comes_wrong_is_found_by_gits_hash(
    fake: hub.Hub, repo: hub.Repo, bring: Bring, whole: Whole
) -> None:
    (repo.folder / "chat_template.jinja").write_text("{{ messages }}")
    repo.faults["chat_template.jinja"] = Flip(times=1)
    assert whole(bring())
    assert len(fake.got("chat_template.jinja")) == 2


def test_patience_ends_where_nothing_comes(fake: hub.Hub, repo: hub.Repo, bring: Bring) -> None:
    repo.faults[WEIGHTS] = Says(503)
    finding = refusal(bring, streams=1)
    assert finding.have == f"{fake.url} answers 503: boom"
    assert "start again" in finding.mend
    assert len(fake.got(WEIGHTS)) == 4


def test_patience_is_renewed_by_every_byte(repo: hub.Repo, bring: Bring, whole: Whole) -> None:
    repo.faults[WEIGHTS] = Cut(at=10_000, times=30)
    assert whole(bring(streams=1))


def test_a_server_that_allows_fewer_connections_is_no_reason_to_end(
    repo: hub.Repo, bring: Bring, whole: Whole
) -> None:
    repo.faults[WEIGHTS] = Crowded(places=1)
    assert whole(bring(streams=4, patience=Patience(tries=4, first_s=0.1, longest_s=0.1)))


@pytest.mark.parametrize("headers", [{"Retry-After": "1"}, {"RateLimit": '"resolvers";r=0;t=1'}], ids=str)
def test_a_server_that_asks_for_time_is_given_it(
    repo: hub.Repo, bring: Bring, whole: Whole, headers: dict[str, str]
) -> None:
    repo.faults[WEIGHTS] = Says(429, headers, times=4)
    begun = time.monotonic()
    assert whole(bring())
    assert time.monotonic() - begun >= 1


def test_a_stall_is_told(repo: hub.Repo, bring: Bring) -> None:
    repo.faults[WEIGHTS] = Stall(at=450_000)
    finding = refusal(bring, patience=Patience(tries=2, first_s=0.01), timeout_s=0.2)
    assert "nothing for 0.2 s" in finding.have
    assert finding.mend == "start again: 452.0 kB are kept"


def test_a_slow_line_shows_its_rate_and_the_time_left(repo: hub.Repo, bring: Bring, whole: Whole) -> None:
    shown = io.StringIO()
    repo.faults[WEIGHTS] = Slow(rate=500_000)
    assert whole(bring(streams=1, progress=Progress(shown, width=lambda: 120)))
    assert re.search(r" kB/s, [1-9] s left", shown.getvalue())


def test_a_server_without_ranges_is_asked_for_all_of_it(
    fake: hub.Hub, repo: hub.Repo, bring: Bring, whole: Whole
) -> None:
    repo.faults[WEIGHTS] = NoRanges()
    assert whole(bring())
    assert fake.got(WEIGHTS)[-1].range == ""


def test_the_token_goes_to_the_hub_and_no_further(
    fake: hub.Hub, repo: hub.Repo, bring: Bring, whole: Whole, look_up: Callable[..., Repository]
) -> None:
    repo.elsewhere = True
    assert whole(bring(token=hub.TOKEN))
    asked = [request for request in fake.requests if WEIGHTS in request.what]
    assert {request.host.partition(":")[0] for request in asked} == {"127.0.0.1", "localhost"}
    assert all(bool(request.token) == request.host.startswith("127.0.0.1") for request in asked)


def test_a_signed_address_that_has_grown_old_is_asked_for_anew(
    fake: hub.Hub, repo: hub.Repo, bring: Bring, whole: Whole
) -> None:
    repo.elsewhere = True
    repo.faults[WEIGHTS] = Says(403, times=1)
    assert whole(bring(streams=1))
    asked = [request.what for request in fake.requests if WEIGHTS in request.what]
    assert sum("/resolve/" in what for what in asked) == 2


def test_an_address_that_grows_old_for_all_at_once_is_no_denial(
    repo: hub.Repo, bring: Bring, whole: Whole
) -> None:
    repo.elsewhere = True
    repo.faults[WEIGHTS] = Says(403, times=6)
    assert whole(bring(streams=4))


def test_connections_are_kept(fake: hub.Hub, repo: hub.Repo, bring: Bring) -> None:
    bring(streams=1)
    assert len({request.connection for request in fake.got(WEIGHTS)}) == 1
    assert len(fake.got(WEIGHTS)) == 11


def test_a_gate_that_closed_since_the_look_is_named(
    fake: hub.Hub, repo: hub.Repo, bring: Bring, look_up: Callable[..., Repository]
) -> None:
    source = look_up("acme/large")
    repo.gated = True
    assert refusal(bring, source).mend.startswith(f"accept the licence at {fake.url}/acme/large")


def test_a_file_that_the_index_names_and_the_hub_has_not_is_refused(repo: hub.Repo, bring: Bring) -> None:
    index = '{"weight_map": {"a": "model.safetensors", "b": "lost.safetensors"}}'
    (repo.folder / "model.safetensors.index.json").write_text(index)
    assert refusal(bring).have == "a file of it is missing"


def test_a_hub_that_goes_down_is_named(
    repo: hub.Repo, bring: Bring, look_up: Callable[..., Repository]
) -> None:
    source = look_up("acme/large")
    with hub.running() as gone:
        url = gone.url
    finding = refusal(bring, source, endpoint=url)
    assert finding.have == f"{url} does not answer (connection refused)"


def test_a_proxy_is_used(
    fake: hub.Hub,
    repo: hub.Repo,
    client: Hub,
    bring: Bring,
    look_up: Callable[..., Repository],
    whole: Whole,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", fake.url)
    monkeypatch.setenv("NO_PROXY", "")
    behind = "http://hub.invalid"
    source = look_up("acme/large")
    assert whole(bring(source, endpoint=behind))
    assert {request.host for request in fake.got(WEIGHTS)} == {"hub.invalid"}


@pytest.mark.parametrize(
    ("name", "etag"),
    [("../model.safetensors", "a" * 64), ("/model.safetensors", "a" * 64), (WEIGHTS, "../a")],
)
def test_a_hub_that_names_what_lies_elsewhere_is_refused(
    fake: hub.Hub, repo: hub.Repo, bring: Bring, look_up: Callable[..., Repository], name: str, etag: str
) -> None:
    source = look_up("acme/large")
    evil = replace(source, files=(File(name, 7, False, etag),), names=(name,))
    assert "no Hub to trust" in refusal(bring, evil).mend


def test_more_pieces_than_the_last_run_had_are_no_trouble(repo: hub.Repo, bring: Bring, whole: Whole) -> None:
    repo.faults[WEIGHTS] = Stall(at=5 * PIECE, times=12)
    refusal(bring, patience=Patience(tries=1))
    repo.faults.clear()
    assert whole(bring(piece=PIECE // 3))
