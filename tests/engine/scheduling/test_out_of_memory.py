"""Memory runs out while the KV memory is managed or a request is queued: the next answers are as before."""

from typing import Any

import pytest

from inference.engine.kv.paged import PagedKVCacheManager
from inference.engine.scheduling.deadlines import Deadlines
from inference.process.memory.memory_shortage import TOO_LITTLE_MEMORY
from tests.engine.paged_bench import PagedBench, make_requests

REPEATED = "take_ops"  # belongs to a step; the other methods are called between two steps
METHODS = ("allocate", "grow", "reserve", "free", REPEATED)


@pytest.mark.parametrize("overlaps", (False, True))
@pytest.mark.parametrize("failing_call", (1, 3))
@pytest.mark.parametrize("method", METHODS)
def test_every_request_ends_and_the_next_is_served(
    method: str, failing_call: int, overlaps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, plain = PagedBench(overlaps), PagedBench(False)
    bench.may_fail = True
    original, num_calls = getattr(PagedKVCacheManager, method), 0

    def failing(*args: Any) -> Any:
        nonlocal num_calls
        num_calls += 1
        if num_calls == failing_call:
            raise MemoryError
        return original(*args)

    with monkeypatch.context() as patch:
        patch.setattr(PagedKVCacheManager, method, failing)
        outputs = [sink.outputs for sink in bench.submit(*make_requests())]
        bench.run_until_idle()
    errors = {str(each[-1].error) for each in outputs if each[-1].error}
    assert num_calls >= failing_call and all(each[-1].finish_reason or each[-1].error for each in outputs)
    assert errors <= {TOO_LITTLE_MEMORY} and not (errors and method == REPEATED)
    stats = bench.engine.stats()
    assert (stats.running, stats.waiting, stats.waiting_tokens, stats.kv_used) == (0, 0, 0, 0)
    sinks, expected = (each.submit(*make_requests()) for each in (bench, plain))
    bench.run_until_idle()
    plain.run_until_idle()
    assert [each.token_ids for each in sinks] == [each.token_ids for each in expected]


def test_a_request_that_cannot_be_queued_ends_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, plain = PagedBench(False), PagedBench(False)

    def refuse(*args: Any) -> None:
        raise MemoryError

    others, expected = (each.submit(*make_requests()) for each in (bench, plain))
    with monkeypatch.context() as patch:
        patch.setattr(Deadlines, "add", refuse)
        refused = bench.submit(*make_requests(deadline=60.0))
        bench.run_until_idle()
    plain.run_until_idle()
    assert {str(sink.outputs[-1].error) for sink in refused} == {TOO_LITTLE_MEMORY}
    assert [each.token_ids for each in others] == [each.token_ids for each in expected]
    assert bench.engine.stats().waiting_tokens == 0
