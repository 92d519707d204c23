"""What is fetched lies as huggingface_hub lays it, so that every program of that family finds it."""

import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir, snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError

from checks import weights
from checks.fetch.patience import Patience
from checks.finding import Refused
from checks.machine import Machine
from checks.plan import Plan
from checks.source.hub import Hub
from checks.source.repository import Repository
from tests import hub
from tests.checks.fetch.conftest import SIZE, WEIGHTS
from tests.hub_faults import Stall

Bring = Callable[..., Path]
LookUp = Callable[..., Repository]
DOWN = "http://127.0.0.1:9"


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No socket can be opened by this process."""

    def refuse(*args: object, **more: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def half(repo: hub.Repo, bring: Bring) -> None:
    """A fetch that ended half way."""
    repo.faults[WEIGHTS] = Stall(at=SIZE // 2)
    with pytest.raises(Refused):
        bring(timeout_s=0.1, patience=Patience(tries=1))
    repo.faults.clear()


def test_huggingface_hub_finds_it_complete(repo: hub.Repo, client: Hub, bring: Bring) -> None:
    folder = bring()
    for revision in ("main", repo.commit):
        found = snapshot_download(
            "acme/large", revision=revision, cache_dir=client.cache, local_files_only=True
        )
        assert Path(found) == folder


def test_huggingface_hub_does_not_take_a_half_for_a_whole(client: Hub, half: None) -> None:
    with pytest.raises(LocalEntryNotFoundError):
        snapshot_download("acme/large", cache_dir=client.cache, local_files_only=True)


def test_huggingface_hub_counts_it(repo: hub.Repo, client: Hub, bring: Bring) -> None:
    bring()
    info = scan_cache_dir(client.cache)
    (found,) = info.repos
    (revision,) = found.revisions
    assert not info.warnings
    assert (found.repo_id, revision.commit_hash, set(revision.refs)) == ("acme/large", repo.commit, {"main"})
    assert {file.file_name: file.size_on_disk for file in revision.files} == {
        name: repo.entry(name)["size"] for name in repo.names()
    }


def test_what_huggingface_hub_fetched_is_not_fetched_again(
    fake: hub.Hub, repo: hub.Repo, client: Hub, bring: Bring, look_up: LookUp
) -> None:
    theirs = snapshot_download("acme/large", cache_dir=client.cache, endpoint=fake.url)
    fake.requests.clear()
    source = look_up("acme/large")
    assert (bring(source), source.to_fetch, fake.got(WEIGHTS)) == (Path(theirs), 0, [])


def test_where_links_are_impossible_the_bytes_lie_in_the_snapshot_alone(
    fake: hub.Hub,
    repo: hub.Repo,
    client: Hub,
    bring: Bring,
    whole: Callable[[Path], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*args: object, **more: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    folder = bring()
    assert whole(folder) and not (folder / WEIGHTS).is_symlink()
    assert not (client.storage("acme/large") / "blobs" / repo.etag(WEIGHTS)).exists()
    fake.requests.clear()
    assert bring() == folder and fake.got(WEIGHTS) == []


@pytest.mark.parametrize("by", ["main", "commit"])
def test_what_is_complete_is_found_without_a_request(
    by: str, fake: hub.Hub, repo: hub.Repo, bring: Bring, look_up: LookUp
) -> None:
    folder = bring()
    fake.requests.clear()
    assert bring(look_up("acme/large", repo.commit if by == "commit" else by)) == folder
    assert fake.requests == []


def test_a_newer_version_is_asked_for_anew_and_served_from_then_on(
    fake: hub.Hub, repo: hub.Repo, bring: Bring, look_up: LookUp
) -> None:
    old = bring()
    fake.repos["acme/large"] = replace(repo, version=2)
    assert bring() == old
    new = bring(look_up("acme/large", anew=True))
    assert new != old and bring() == new


def test_a_commit_that_is_half_there_is_asked_for(
    fake: hub.Hub, repo: hub.Repo, bring: Bring, look_up: LookUp, half: None, whole: Callable[[Path], bool]
) -> None:
    assert whole(bring(look_up("acme/large", repo.commit)))


def test_a_commit_with_code_is_asked_for_where_the_code_may_run(
    fake: hub.Hub, repo: hub.Repo, bring: Bring, look_up: LookUp
) -> None:
    (repo.folder / "config.json").write_text('{"model_type": "own", "auto_map": {"AutoModel": "own.Model"}}')
    (repo.folder / "own.py").write_text("")
    bring()
    source = look_up("acme/large", repo.commit, code=True)
    assert (bring(source) / "own.py").exists()


def test_a_complete_model_is_found_and_fetched_offline_without_a_socket(
    repo: hub.Repo, bring: Bring, look_up: LookUp, request: pytest.FixtureRequest
) -> None:
    folder = bring()
    request.getfixturevalue("blocked")
    with pytest.raises(AssertionError, match="a socket was opened"):
        socket.create_connection(("127.0.0.1", 9))
    assert bring(look_up("acme/large", offline=True)) == folder


def test_a_complete_model_is_found_when_the_hub_is_down(
    repo: hub.Repo, client: Hub, bring: Bring, look_up: LookUp
) -> None:
    folder = bring()
    assert bring(look_up("acme/large", hub=replace(client, endpoint=DOWN)), endpoint=DOWN) == folder


def test_what_a_half_lacks_is_named_when_the_hub_is_down(
    repo: hub.Repo,
    client: Hub,
    look_up: LookUp,
    half: None,
    planned: Callable[..., Plan],
    machine: Machine,
) -> None:
    source = look_up("acme/large", hub=replace(client, endpoint=DOWN))
    finding = weights.check(replace(planned(), repository=source), machine)
    assert not finding.ok and finding.mend.startswith(f"{WEIGHTS} is missing: fetch")


def test_each_content_is_fetched_once(fake: hub.Hub, repo: hub.Repo, bring: Bring) -> None:
    (repo.folder / "vocab.json").write_bytes((repo.folder / "tokenizer.json").read_bytes())
    folder = bring()
    assert (folder / "vocab.json").resolve() == (folder / "tokenizer.json").resolve()
    assert len(fake.got("tokenizer.json") + fake.got("vocab.json")) == 1


def test_a_complete_cache_is_not_written_to(
    repo: hub.Repo, bring: Bring, look_up: Callable[..., Repository]
) -> None:
    folder = bring()
    times = {path: path.lstat().st_mtime_ns for path in folder.parents[1].rglob("*")}
    assert bring(look_up("acme/large")) == folder
    assert {path: path.lstat().st_mtime_ns for path in folder.parents[1].rglob("*")} == times
