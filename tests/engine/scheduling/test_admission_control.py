"""The limit on waiting prompt tokens."""

import threading

import pytest

from inference import drain_rate
from inference.drain_rate import MAX_RETRY_S, MIN_RETRY_S
from inference.engine.scheduling.admission_control import AdmissionControl
from inference.errors import Overloaded, Unavailable
from tests.fakes.stepped_clock import SteppedClock


def admit(admission: AdmissionControl, id: int, tokens: int) -> None:
    with admission.admit({id: tokens}):
        pass


def test_a_prompt_beyond_the_limit_is_refused() -> None:
    admission = AdmissionControl(100)
    admit(admission, 1, 60)
    with pytest.raises(Overloaded):
        admit(admission, 2, 41)
    admit(admission, 3, 40)
    assert admission.queued_tokens == 100


def test_a_prompt_larger_than_the_limit_enters_when_nothing_waits() -> None:
    admission = AdmissionControl(100)
    admit(admission, 1, 500)
    with pytest.raises(Overloaded):
        admit(admission, 2, 1)


def test_a_release_frees_its_tokens_once() -> None:
    admission = AdmissionControl(100)
    admit(admission, 1, 100)
    assert admission.release(1) and not admission.release(1)
    assert admission.queued_tokens == 0


def test_retry_after_follows_the_drain_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_rate, "time", SteppedClock())
    admission = AdmissionControl(1000)
    for id in range(10):
        admit(admission, id, 100)
    for id in range(5):
        admission.release(id)
    admit(admission, 10, 500)
    waits = []
    for excess in (1, 1000, 10**9):
        with pytest.raises(Overloaded) as refused:
            admit(admission, 11, excess)
        waits.append(refused.value.retry_after)
    assert waits == [1, 2, 2]


def test_an_estimate_replaces_the_rate() -> None:
    admission = AdmissionControl(100)
    admit(admission, 1, 100)
    admission.estimate_wait = lambda excess: excess / 10
    for tokens, seconds in ((50, 5), (1, MIN_RETRY_S), (1000, 10)):
        with pytest.raises(Overloaded) as refused:
            admit(admission, 2, tokens)
        assert refused.value.retry_after == seconds
    admission.estimate_wait = lambda excess: 1000.0
    with pytest.raises(Overloaded) as refused:
        admit(admission, 2, 1)
    assert refused.value.retry_after == MAX_RETRY_S


def test_closed_admission_admits_no_request_and_keeps_its_first_reason() -> None:
    admission = AdmissionControl(100)
    admission.close("stopped")
    admission.close("stopped again")
    with pytest.raises(Unavailable, match=r"^stopped$"):
        admit(admission, 1, 1)


def test_the_limit_is_exact_under_many_threads() -> None:
    admission, entered = AdmissionControl(1000), []

    def admit_many(start: int) -> None:
        for id in range(start, start + 200):
            try:
                admit(admission, id, 7)
                entered.append(id)
            except Overloaded:
                pass

    threads = [threading.Thread(target=admit_many, args=(n * 200,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(entered) == 1000 // 7 and admission.queued_tokens == 7 * len(entered)
