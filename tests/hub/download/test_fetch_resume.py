"""However a fetch ends, the next one resumes from the bytes on the disk."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hub.client import Hub
from hub.download.partial import count_written_bytes, partial_paths
from inference.finding import Refused
from tests.fakes import fake_hub
from tests.fakes.fake_hub_faults import Stall
from tests.hub.download.conftest import PIECE_BYTES, SIZE, WEIGHTS
from tests.hub.download.fetching import ERRORS, OUTPUT, FetchProcess, running_forks

TIMEOUT_S = 240.0
FetchModel = Callable[..., Path]
StartFetch = Callable[[], FetchProcess]


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    with running_forks() as process:
        yield process


@pytest.fixture
def start_fetch(forks: subprocess.Popen[str], client: Hub, tmp_path: Path) -> Iterator[StartFetch]:
    """Starts a fetch in a process of its own, which ends with the test."""
    started: list[FetchProcess] = []

    def start() -> FetchProcess:
        started.append(FetchProcess(forks, client, tmp_path / f"fetch {len(started)}"))
        return started[-1]

    yield start
    for fetch in started:
        fetch.send_signal(signal.SIGKILL)


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def blob(repo: fake_hub.Repo, client: Hub) -> Path:
    return client.model_folder("acme/large") / "blobs" / repo.etag(WEIGHTS)


@pytest.fixture
def stalled(repo: fake_hub.Repo) -> Iterator[Stall]:
    """The Hub sends nine tenths of the weights and then stalls."""
    fault = Stall(at=SIZE * 9 // 10)
    repo.faults[WEIGHTS] = fault
    yield fault
    fault.released.set()


def resume_fetch(fake: fake_hub.FakeHub, repo: fake_hub.Repo, stalled: Stall, fetch_model: FetchModel) -> int:
    """Fetches the rest from the repaired Hub; returns the bytes of the weights that were sent."""
    stalled.released.set()
    repo.faults.clear()
    fake.requests.clear()
    folder = fetch_model()
    assert (folder / WEIGHTS).read_bytes() == (repo.folder / WEIGHTS).read_bytes()
    return sum(request.sent for request in fake.gets_of(WEIGHTS))


@pytest.mark.system("posix")
def test_a_fetch_killed_at_nine_tenths_resumes_from_there(
    fake: fake_hub.FakeHub,
    repo: fake_hub.Repo,
    start_fetch: StartFetch,
    blob: Path,
    stalled: Stall,
    fetch_model: FetchModel,
) -> None:
    fetch = start_fetch()
    wait_until(lambda: count_written_bytes(blob, SIZE) == stalled.at)
    fetch.send_signal(signal.SIGKILL)
    assert fetch.wait(TIMEOUT_S) is None
    assert resume_fetch(fake, repo, stalled, fetch_model) == SIZE - stalled.at


@pytest.mark.system("posix")
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_fetch_at_once_and_reports_the_kept_bytes(
    fake: fake_hub.FakeHub,
    repo: fake_hub.Repo,
    start_fetch: StartFetch,
    blob: Path,
    stalled: Stall,
    fetch_model: FetchModel,
    number: signal.Signals,
) -> None:
    fetch = start_fetch()
    wait_until(lambda: count_written_bytes(blob, SIZE) == stalled.at)
    fetch.send_signal(number)
    assert fetch.wait(TIMEOUT_S) == 1
    assert fetch.read(OUTPUT) == "stopped: start again: 902.0 kB are kept\n"
    assert "Traceback" not in fetch.read(ERRORS)
    assert resume_fetch(fake, repo, stalled, fetch_model) == SIZE - stalled.at


@pytest.mark.system("posix")
@pytest.mark.slow
def test_the_second_of_two_fetches_waits_and_takes_over_when_the_first_dies(
    fake: fake_hub.FakeHub,
    repo: fake_hub.Repo,
    start_fetch: StartFetch,
    blob: Path,
    stalled: Stall,
    fetch_model: FetchModel,
) -> None:
    first = start_fetch()
    wait_until(lambda: count_written_bytes(blob, SIZE) == stalled.at)
    second = start_fetch()
    wait_until(lambda: "another process fetches acme/large: 90%, 900.0 kB" in second.read(ERRORS))
    fake.requests.clear()
    repo.faults.clear()
    first.send_signal(signal.SIGKILL)
    assert second.wait(TIMEOUT_S) == 0
    assert sum(request.sent for request in fake.gets_of(WEIGHTS)) == SIZE - stalled.at


@pytest.mark.system("posix")
@pytest.mark.slow
def test_the_second_of_two_fetches_requests_nothing_that_the_first_has_fetched(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, start_fetch: StartFetch
) -> None:
    first, second = start_fetch(), start_fetch()
    assert (first.wait(TIMEOUT_S), second.wait(TIMEOUT_S)) == (0, 0)
    assert sum(request.sent for request in fake.gets_of(WEIGHTS)) == SIZE


def overwrite_data(data: Path, journal: Path) -> None:
    with data.open("r+b") as file:
        for offset in range(0, SIZE - PIECE_BYTES, PIECE_BYTES):  # any of these pieces may have been written
            file.seek(offset)
            file.write(b"other bytes")


def truncate_journal(data: Path, journal: Path) -> None:
    journal.write_bytes(journal.read_bytes()[:-3])


def truncate_data(data: Path, journal: Path) -> None:
    os.truncate(data, PIECE_BYTES)


def replace_journal(data: Path, journal: Path) -> None:
    journal.write_bytes(b"something else" * 100)


@pytest.mark.parametrize("damage", [overwrite_data, truncate_journal, truncate_data, replace_journal])
def test_damaged_data_on_the_disk_is_fetched_again(
    fake: fake_hub.FakeHub,
    repo: fake_hub.Repo,
    client: Hub,
    blob: Path,
    stalled: Stall,
    fetch_model: FetchModel,
    damage: Callable[[Path, Path], None],
) -> None:
    with pytest.raises(Refused):
        fetch_model(timeout_s=0.1)
    damage(*partial_paths(blob))
    assert resume_fetch(fake, repo, stalled, fetch_model) >= SIZE


def test_only_blobs_are_left_after_a_complete_fetch(
    repo: fake_hub.Repo, blob: Path, fetch_model: FetchModel
) -> None:
    fetch_model()
    assert {path.suffix for path in blob.parent.iterdir()} == {""}


def test_a_blob_shared_with_another_version_is_not_fetched_again(
    fake: fake_hub.FakeHub,
    repo: fake_hub.Repo,
    client: Hub,
    fetch_model: FetchModel,
    look_up: Callable[..., object],
) -> None:
    first = fetch_model()
    (repo.folder / "config.json").write_text('{"model_type": "llama", "newer": true}')
    fake.repos["acme/large"] = replace(repo, version=2)
    fake.requests.clear()
    second = fetch_model(look_up("acme/large", refresh=True))
    assert first != second and fake.gets_of(WEIGHTS) == []
    assert (second / WEIGHTS).resolve() == (first / WEIGHTS).resolve()
