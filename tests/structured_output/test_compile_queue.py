"""Work on grammars is done one after another, apart from the threads that wait for it."""

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from inference import drain_rate
from inference.errors import BadRequest, Internal, Overloaded
from inference.structured_output import compile_queue
from inference.structured_output.compile_queue import CompileQueue
from inference.structured_output.grammar_checker import CheckAbandoned
from tests.fakes.stepped_clock import SteppedClock
from tests.timeouts import TIMEOUT_S

IsAbandoned = Callable[[], bool]
MAX_WAIT_S = 10.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppedClock:
    """The time that the limit of MAX_WAIT_S is measured in."""
    clock = SteppedClock()
    monkeypatch.setattr(compile_queue, "MAX_WAIT_S", MAX_WAIT_S)
    for module in (compile_queue, drain_rate):
        monkeypatch.setattr(module, "time", clock)
    return clock


def test_work_is_done_in_order_on_one_thread() -> None:
    queue = CompileQueue()
    jobs = [queue.submit(lambda _, number=number: (number, threading.get_ident())) for number in range(3)]
    results = [job.future.result(TIMEOUT_S) for job in jobs]
    assert [number for number, _ in results] == [0, 1, 2]
    assert len({thread for _, thread in results} - {threading.get_ident()}) == 1


def test_an_error_goes_to_its_request_and_the_next_work_is_done() -> None:
    queue = CompileQueue()

    def refuse(_: IsAbandoned) -> None:
        raise BadRequest("guided_regex", "is bad")

    def fail(_: IsAbandoned) -> None:
        raise RecursionError

    with pytest.raises(BadRequest, match="is bad"):
        queue.submit(refuse).future.result(TIMEOUT_S)
    with pytest.raises(Internal, match="could not be compiled"):
        queue.submit(fail).future.result(TIMEOUT_S)
    assert queue.submit(lambda _: 7).future.result(TIMEOUT_S) == 7


def test_abandoned_work_is_not_begun_and_work_in_progress_can_end() -> None:
    queue, has_begun = CompileQueue(), threading.Event()

    def wait_until_abandoned(is_abandoned: IsAbandoned) -> None:
        has_begun.set()
        while not is_abandoned():
            pass
        raise CheckAbandoned

    running = queue.submit(wait_until_abandoned)
    waiting, last = queue.submit(lambda _: 1), queue.submit(lambda _: 2)
    has_begun.wait(TIMEOUT_S)
    waiting.abandon()
    running.abandon()
    assert last.future.result(TIMEOUT_S) == 2
    assert waiting.future.cancelled()
    with pytest.raises((Internal, CancelledError)):
        running.future.result(TIMEOUT_S)


def test_work_that_has_waited_too_long_is_refused(clock: SteppedClock) -> None:
    queue = CompileQueue()
    has_begun, may_end = threading.Event(), threading.Event()
    queue.submit(lambda _: (has_begun.set(), may_end.wait(TIMEOUT_S)))
    has_begun.wait(TIMEOUT_S)
    late = queue.submit(lambda _: 1)
    clock.now += 1.01 * MAX_WAIT_S
    may_end.set()
    with pytest.raises(Overloaded):
        late.future.result(TIMEOUT_S)


def test_work_that_would_wait_too_long_is_refused_at_once_with_the_excess(clock: SteppedClock) -> None:
    queue, may_end, has_begun = CompileQueue(), threading.Event(), threading.Event()

    def take_a_while(_: IsAbandoned) -> None:
        clock.now += 0.8

    queue.submit(take_a_while).future.result(TIMEOUT_S)
    queue.submit(lambda _: (has_begun.set(), may_end.wait(TIMEOUT_S)))
    has_begun.wait(TIMEOUT_S)
    jobs, refusal = [], None
    for _ in range(40):
        try:
            jobs.append(queue.submit(lambda _: 1))
        except Overloaded as error:
            refusal = error
    assert len(jobs) == 12, "each takes 0.8 s, and the limit is 10 s"
    assert refusal is not None and refusal.retry_after == 1, "one of them is done then"
    for job in jobs:
        job.abandon()
    queue.submit(lambda _: 2)
    may_end.set()


def test_the_first_grammars_are_accepted_although_nothing_is_known_of_them() -> None:
    queue = CompileQueue()
    jobs = [queue.submit(lambda _: 1) for _ in range(16)]
    assert [job.future.result(TIMEOUT_S) for job in jobs] == [1] * 16


def test_jobs_that_leave_after_their_wait_make_room_too(clock: SteppedClock) -> None:
    queue, may_end, has_begun = CompileQueue(), threading.Event(), threading.Event()
    queue.submit(lambda _: (has_begun.set(), may_end.wait(TIMEOUT_S)))
    has_begun.wait(TIMEOUT_S)
    for _ in range(15):
        queue.submit(lambda _: 1)
    queue._durations.record(8.0)  # slower than they were expected to be
    with pytest.raises(Overloaded) as refused:
        queue.submit(lambda _: 1)
    assert refused.value.retry_after == 10, "not the 110 s that all of them would take"
    may_end.set()
