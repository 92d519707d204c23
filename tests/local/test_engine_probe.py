"""An engine is unavailable if it fails a request of the server's own, not because clients' requests fail."""

import pytest

from inference.engine.step_output import StepOutput
from inference.errors import Internal, Overloaded, Unavailable
from inference.local import engine_probe
from inference.local.engine_probe import MAX_CONSECUTIVE_FAILURES, EngineProbe
from tests.local.fake_engine import FakeEngine

FAILED = StepOutput(error=Internal("no memory"))


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def probe(engine: FakeEngine) -> EngineProbe:
    return EngineProbe(engine, token_id=7)  # type: ignore[arg-type]


def test_requests_that_fail_make_no_engine_unavailable(engine: FakeEngine, probe: EngineProbe) -> None:
    engine.consecutive_failures = MAX_CONSECUTIVE_FAILURES - 1
    assert not probe.unavailable_reason() and not engine.requests
    engine.consecutive_failures = MAX_CONSECUTIVE_FAILURES
    assert not probe.unavailable_reason() and not probe.unavailable_reason()
    (request,) = engine.requests
    assert (request.prompt_token_ids, request.max_tokens) == ((7,), 1)
    engine.consecutive_failures = 0  # as the engine counts it when it answers
    engine.put(StepOutput((5,), finish_reason="length"))
    assert not probe.unavailable_reason()


def test_an_engine_that_fails_the_probe_too_is_unavailable(
    engine: FakeEngine, probe: EngineProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.consecutive_failures = MAX_CONSECUTIVE_FAILURES
    probe.unavailable_reason()
    engine.put(FAILED)
    assert probe.unavailable_reason() == "the last 3 requests have failed, a probe too: no memory"
    assert len(engine.requests) == 1
    monkeypatch.setattr(engine_probe, "PROBE_INTERVAL_S", -1.0)
    assert probe.unavailable_reason() and len(engine.requests) == 2
    engine.consecutive_failures = 0
    engine.put(StepOutput((5,), finish_reason="length"), request=1)
    assert not probe.unavailable_reason()


def test_later_failures_are_probed_again(engine: FakeEngine, probe: EngineProbe) -> None:
    for _ in range(2):
        engine.consecutive_failures = MAX_CONSECUTIVE_FAILURES
        assert not probe.unavailable_reason()
        engine.consecutive_failures = 0
        assert not probe.unavailable_reason()
    assert len(engine.requests) == 2


def test_a_probe_without_an_answer_has_failed(
    engine: FakeEngine, probe: EngineProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.consecutive_failures = MAX_CONSECUTIVE_FAILURES
    assert not probe.unavailable_reason()
    monkeypatch.setattr(engine_probe, "PROBE_TIMEOUT_S", -1.0)
    assert probe.unavailable_reason() == "the last 3 requests have failed, and a probe has no answer"


@pytest.mark.parametrize(("error", "is_available"), [(Overloaded(1), True), (Unavailable("stopped"), False)])
def test_a_full_queue_is_no_failure(
    engine: FakeEngine, probe: EngineProbe, error: Overloaded | Unavailable, is_available: bool
) -> None:
    engine.consecutive_failures, engine.refuses = MAX_CONSECUTIVE_FAILURES, error
    assert (probe.unavailable_reason() == "") == is_available
