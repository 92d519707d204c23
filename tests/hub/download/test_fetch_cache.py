"""Fetched files have the layout of huggingface_hub's cache, so that other programs find them."""

import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir, snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError

from checks.machine import Machine
from checks.memory.plan import Plan
from checks.model import weights
from hub.client import Hub
from hub.download.retry import RetryPolicy
from hub.repository import Repository
from hub.weight_files import AllowedFiles
from inference.finding import Refused
from tests.fakes import fake_hub
from tests.fakes.fake_hub_faults import Stall
from tests.hub.download.conftest import SIZE, WEIGHTS

FetchModel = Callable[..., Path]
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
def half(repo: fake_hub.Repo, fetch_model: FetchModel) -> None:
    """A fetch that ended halfway."""
    repo.faults[WEIGHTS] = Stall(at=SIZE // 2)
    with pytest.raises(Refused):
        fetch_model(timeout_s=0.1, retry_policy=RetryPolicy(max_tries=1))
    repo.faults.clear()


def test_huggingface_hub_finds_a_complete_snapshot(
    repo: fake_hub.Repo, client: Hub, fetch_model: FetchModel
) -> None:
    folder = fetch_model()
    for revision in ("main", repo.commit):
        path = snapshot_download(
            "acme/large", revision=revision, cache_dir=client.cache_dir, local_files_only=True
        )
        assert Path(path) == folder


def test_huggingface_hub_does_not_use_an_incomplete_snapshot(client: Hub, half: None) -> None:
    with pytest.raises(LocalEntryNotFoundError):
        snapshot_download("acme/large", cache_dir=client.cache_dir, local_files_only=True)


def test_huggingface_hub_scans_the_cache_without_warnings(
    repo: fake_hub.Repo, client: Hub, fetch_model: FetchModel
) -> None:
    fetch_model()
    info = scan_cache_dir(client.cache_dir)
    (cached_repo,) = info.repos
    (revision,) = cached_repo.revisions
    assert not info.warnings
    assert (cached_repo.repo_id, revision.commit_hash, set(revision.refs)) == (
        "acme/large",
        repo.commit,
        {"main"},
    )
    assert {file.file_name: file.size_on_disk for file in revision.files} == {
        name: repo.entry(name)["size"] for name in repo.names()
    }


def test_files_fetched_by_huggingface_hub_are_not_fetched_again(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, client: Hub, fetch_model: FetchModel, look_up: LookUp
) -> None:
    theirs = snapshot_download("acme/large", cache_dir=client.cache_dir, endpoint=fake.url)
    fake.requests.clear()
    source = look_up("acme/large")
    assert (fetch_model(source), source.bytes_to_fetch, fake.gets_of(WEIGHTS)) == (Path(theirs), 0, [])


def refuse(*paths: Path) -> None:
    raise OSError("no links here")


def make_none(*paths: Path) -> None:
    """As Wine does."""


@pytest.mark.parametrize("make_link", [refuse, make_none])
def test_without_links_the_bytes_are_only_in_the_snapshot(
    fake: fake_hub.FakeHub,
    repo: fake_hub.Repo,
    client: Hub,
    fetch_model: FetchModel,
    is_complete: Callable[[Path], bool],
    monkeypatch: pytest.MonkeyPatch,
    make_link: Callable[..., None],
) -> None:
    monkeypatch.setattr(Path, "symlink_to", make_link)
    folder = fetch_model()
    assert is_complete(folder) and not (folder / WEIGHTS).is_symlink()
    assert not (client.model_folder("acme/large") / "blobs" / repo.etag(WEIGHTS)).exists()
    fake.requests.clear()
    assert fetch_model() == folder and fake.gets_of(WEIGHTS) == []


@pytest.mark.parametrize("by", ["main", "commit"])
def test_a_complete_snapshot_is_found_without_a_request(
    by: str, fake: fake_hub.FakeHub, repo: fake_hub.Repo, fetch_model: FetchModel, look_up: LookUp
) -> None:
    folder = fetch_model()
    fake.requests.clear()
    assert fetch_model(look_up("acme/large", repo.commit if by == "commit" else by)) == folder
    assert fake.requests == []


def test_a_newer_version_is_fetched_on_refresh_and_served_from_then_on(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, fetch_model: FetchModel, look_up: LookUp
) -> None:
    old = fetch_model()
    fake.repos["acme/large"] = replace(repo, version=2)
    assert fetch_model() == old
    new = fetch_model(look_up("acme/large", refresh=True))
    assert new != old and fetch_model() == new


def test_an_incomplete_commit_is_requested(
    fake: fake_hub.FakeHub,
    repo: fake_hub.Repo,
    fetch_model: FetchModel,
    look_up: LookUp,
    half: None,
    is_complete: Callable[[Path], bool],
) -> None:
    assert is_complete(fetch_model(look_up("acme/large", repo.commit)))


def test_a_commit_with_code_is_requested_where_the_code_may_run(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, fetch_model: FetchModel, look_up: LookUp
) -> None:
    (repo.folder / "config.json").write_text('{"model_type": "own", "auto_map": {"AutoModel": "own.Model"}}')
    (repo.folder / "own.py").write_text("")
    fetch_model()
    source = look_up("acme/large", repo.commit, allowed=AllowedFiles(trust_remote_code=True))
    assert (fetch_model(source) / "own.py").exists()


def test_a_complete_model_is_found_and_fetched_offline_without_a_socket(
    repo: fake_hub.Repo, fetch_model: FetchModel, look_up: LookUp, request: pytest.FixtureRequest
) -> None:
    folder = fetch_model()
    request.getfixturevalue("blocked")
    with pytest.raises(AssertionError, match="a socket was opened"):
        socket.create_connection(("127.0.0.1", 9))
    assert fetch_model(look_up("acme/large", offline=True)) == folder


def test_a_complete_model_is_found_when_the_hub_is_down(
    repo: fake_hub.Repo, client: Hub, fetch_model: FetchModel, look_up: LookUp
) -> None:
    folder = fetch_model()
    assert fetch_model(look_up("acme/large", hub=replace(client, endpoint=DOWN)), endpoint=DOWN) == folder


def test_missing_files_of_an_incomplete_snapshot_are_named_when_the_hub_is_down(
    repo: fake_hub.Repo,
    client: Hub,
    look_up: LookUp,
    half: None,
    planned: Callable[..., Plan],
    machine: Machine,
) -> None:
    source = look_up("acme/large", hub=replace(client, endpoint=DOWN))
    finding = weights.check(replace(planned(), repository=source), machine)
    assert not finding.ok and finding.fix.startswith(f"{WEIGHTS} is missing: fetch")


def test_each_content_is_fetched_once(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, fetch_model: FetchModel
) -> None:
    (repo.folder / "vocab.json").write_bytes((repo.folder / "tokenizer.json").read_bytes())
    folder = fetch_model()
    assert (folder / "vocab.json").resolve() == (folder / "tokenizer.json").resolve()
    assert len(fake.gets_of("tokenizer.json") + fake.gets_of("vocab.json")) == 1


def test_a_complete_cache_is_not_written_to(
    repo: fake_hub.Repo, fetch_model: FetchModel, look_up: Callable[..., Repository]
) -> None:
    folder = fetch_model()
    times = {path: path.lstat().st_mtime_ns for path in folder.parents[1].rglob("*")}
    assert fetch_model(look_up("acme/large")) == folder
    assert {path: path.lstat().st_mtime_ns for path in folder.parents[1].rglob("*")} == times
