"""However a fetch ends, the next one goes on from the bytes on the disk."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from checks.fetch.partial import beside, written
from checks.finding import Refused
from checks.source.hub import Hub
from tests import hub
from tests.checks.fetch.conftest import PIECE, SIZE, WEIGHTS
from tests.hub_faults import Stall

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0
FETCH = f"""
import sys, time
from pathlib import Path
from checks.fetch import fetch
from checks.fetch.pace import Pace
from checks.finding import Refused
from checks.source.hub import Hub
from checks.source.find import find
from checks.fetch.room import Room
hub = Hub(sys.argv[1], Path(sys.argv[2]))
source = find("acme/large", "main", home=Path("."), hub=hub, offline=False, code=False)
pace = Pace(streams=4, piece={PIECE}, timeout_s=300, quiet_s=0)
try:
    fetch(source, hub, room=Room(hub.cache, spare=0), pace=pace)
except Refused as refused:
    print(refused.finding.have, refused.finding.mend, sep=": ")
    sys.exit(1)
"""

Bring = Callable[..., Path]


@contextmanager
def fetching(client: Hub) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", FETCH, client.endpoint, str(client.cache)],
        cwd=ROOT,
        env=os.environ | {"NO_PROXY": "127.0.0.1,localhost"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def blob(repo: hub.Repo, client: Hub) -> Path:
    return client.storage("acme/large") / "blobs" / repo.etag(WEIGHTS)


@pytest.fixture
def stalled(repo: hub.Repo) -> Iterator[Stall]:
    """The Hub sends nine tenths of the weights, and then nothing."""
    fault = Stall(at=SIZE * 9 // 10)
    repo.faults[WEIGHTS] = fault
    yield fault
    fault.released.set()


def go_on(fake: hub.Hub, repo: hub.Repo, stalled: Stall, bring: Bring) -> int:
    """Fetch the rest from a Hub that is well again; the bytes of the weights that it took."""
    stalled.released.set()
    repo.faults.clear()
    fake.requests.clear()
    folder = bring()
    assert (folder / WEIGHTS).read_bytes() == (repo.folder / WEIGHTS).read_bytes()
    return sum(request.sent for request in fake.got(WEIGHTS))


def test_a_fetch_killed_at_nine_tenths_goes_on_from_there(
    fake: hub.Hub, repo: hub.Repo, client: Hub, blob: Path, stalled: Stall, bring: Bring
) -> None:
    with fetching(client) as process:
        until(lambda: written(blob, SIZE) == stalled.at)
        process.kill()
        process.wait(PATIENCE_S)
    assert go_on(fake, repo, stalled, bring) == SIZE - stalled.at


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_fetch_at_once_and_says_what_is_kept(
    fake: hub.Hub,
    repo: hub.Repo,
    client: Hub,
    blob: Path,
    stalled: Stall,
    bring: Bring,
    number: signal.Signals,
) -> None:
    with fetching(client) as process:
        until(lambda: written(blob, SIZE) == stalled.at)
        process.send_signal(number)
        told, errors = process.communicate(timeout=PATIENCE_S)  # less than a line is waited for
    assert (process.returncode, told) == (1, "stopped: start again: 902.0 kB are kept\n")
    assert "Traceback" not in errors
    assert go_on(fake, repo, stalled, bring) == SIZE - stalled.at


@pytest.mark.slow
def test_the_second_of_two_waits_and_takes_over_when_the_first_dies(
    fake: hub.Hub, repo: hub.Repo, client: Hub, blob: Path, stalled: Stall, bring: Bring
) -> None:
    with fetching(client) as first:
        until(lambda: written(blob, SIZE) == stalled.at)
        with fetching(client) as second:
            assert second.stderr is not None
            assert second.stderr.readline().startswith("another process fetches acme/large: 90%, 900.0 kB")
            fake.requests.clear()
            repo.faults.clear()
            first.kill()
            assert second.wait(PATIENCE_S) == 0
    assert sum(request.sent for request in fake.got(WEIGHTS)) == SIZE - stalled.at


@pytest.mark.slow
def test_the_second_of_two_asks_for_nothing_that_the_first_has_brought(
    fake: hub.Hub, repo: hub.Repo, client: Hub, blob: Path, bring: Bring
) -> None:
    with fetching(client) as first, fetching(client) as second:
        assert (first.wait(PATIENCE_S), second.wait(PATIENCE_S)) == (0, 0)
    assert sum(request.sent for request in fake.got(WEIGHTS)) == SIZE


def spoiled(data: Path, journal: Path) -> None:
    with data.open("r+b") as file:
        for piece in range(0, SIZE - PIECE, PIECE):  # whichever of them has come
            file.seek(piece)
            file.write(b"other bytes")


def torn(data: Path, journal: Path) -> None:
    journal.write_bytes(journal.read_bytes()[:-3])


def shorn(data: Path, journal: Path) -> None:
    os.truncate(data, PIECE)


def foreign(data: Path, journal: Path) -> None:
    journal.write_bytes(b"something else" * 100)


@pytest.mark.parametrize("damage", [spoiled, torn, shorn, foreign])
def test_what_is_damaged_on_the_disk_is_fetched_anew(
    fake: hub.Hub,
    repo: hub.Repo,
    client: Hub,
    blob: Path,
    stalled: Stall,
    bring: Bring,
    damage: Callable[[Path, Path], None],
) -> None:
    with pytest.raises(Refused):
        bring(timeout_s=0.1)
    damage(*beside(blob))
    assert go_on(fake, repo, stalled, bring) >= SIZE


def test_nothing_is_left_beside_what_is_complete(repo: hub.Repo, blob: Path, bring: Bring) -> None:
    bring()
    assert {path.suffix for path in blob.parent.iterdir()} == {""}


def test_a_blob_of_another_version_is_not_fetched(
    fake: hub.Hub, repo: hub.Repo, client: Hub, bring: Bring, look_up: Callable[..., object]
) -> None:
    first = bring()
    (repo.folder / "config.json").write_text('{"model_type": "llama", "newer": true}')
    fake.repos["acme/large"] = replace(repo, version=2)
    fake.requests.clear()
    second = bring(look_up("acme/large", anew=True))
    assert first != second and fake.got(WEIGHTS) == []
    assert (second / WEIGHTS).resolve() == (first / WEIGHTS).resolve()
