"""A client that leaves is gone at every kind of upstream, however far the answer is."""

import time

import pytest

from tests.remote.conftest import OpenModel
from tests.remote.fake_upstream import FakeUpstream, Reply, wait_until
from tests.remote.upstream_kinds import KINDS

LIMIT_S = 30.0  # a busy machine delays what takes a moment; a connection that stays open does so for minutes
STAGES = ("before the head", "before an event", "after an event")


def reply_at(stage: str, kind: str) -> Reply:
    if stage == "before the head":
        return Reply(["wait"], is_raw=True)
    return Reply([KINDS[kind].first_event, "wait"] if stage == "after an event" else ["wait"])


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_leaves_is_noticed_upstream_at_once(
    kind: str, stage: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    KINDS[kind].play(upstream, reply_at(stage, kind))
    stream = KINDS[kind].open(open_upstream).generate(KINDS[kind].request)
    if stage == "after an event":
        next(iter(stream))
    wait_until(lambda: len(upstream.sent) == KINDS[kind].num_requests)
    closed_at = time.monotonic()
    stream.close()
    wait_until(lambda: upstream.sent[-1].cancelled_at > 0)
    assert 0 < upstream.sent[-1].cancelled_at - closed_at < LIMIT_S
