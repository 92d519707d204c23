"""The ids of requests for samples, which the next server knows, and the numbers of clones."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.database import Database, Schema
from inference.errors import NotFound
from tuning.runs.pending_samples import PendingSamples
from tuning.runs.store import PENDING_SAMPLES, RUN_TABLES, SAMPLERS
from tuning.runs.types import SamplingSession, UnfetchedSample
from tuning.service import SCHEMA

SAMPLER = "s:sample:0"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """As the version before had it: an upgrade adds the table."""
    former = Schema(SCHEMA.title, 2, RUN_TABLES)
    Database(tmp_path / "tuning.db", former).close()
    opened = Database(tmp_path / "tuning.db", SCHEMA)
    sampler = SamplingSession(id=SAMPLER, session_id="s", base_model="m", created=1)
    opened.run(SAMPLERS.insert, sampler, "s")
    yield opened
    opened.close()


def test_the_next_server_knows_what_was_not_fetched(database: Database) -> None:
    pending = PendingSamples(database)
    for request_id in ("a", "b", "a", "c"):
        pending.add(request_id, SAMPLER, 0)
    pending.add("d", SAMPLER, 1)
    pending.remove("b")
    pending.remove("unknown")
    assert PendingSamples(database).ids(SAMPLER, 0) == ["a", "c"]
    assert PendingSamples(database).ids(SAMPLER, 1) == ["d"]


def test_what_was_sent_a_day_ago_is_forgotten(database: Database) -> None:
    old = UnfetchedSample(id="a", created=int(time.time()) - 25 * 3600)
    database.run(PENDING_SAMPLES.insert, old, f"{SAMPLER}:0")
    assert PendingSamples(database).ids(SAMPLER, 0) == []


def test_clones_have_numbers_of_their_own_over_restarts(database: Database) -> None:
    assert [PendingSamples(database).next_clone(SAMPLER) for _ in range(3)] == [1, 2, 3]
    with pytest.raises(NotFound):
        PendingSamples(database).next_clone("unknown")
