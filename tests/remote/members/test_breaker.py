"""A server that fails rests; then one request tries it."""

from inference.remote.members.breaker import FIRST_REST_S, MAX_REST_S, Breaker


def fail(breaker: Breaker, now: float, times: int = 1) -> None:
    for _ in range(times):
        breaker.start(now)
        breaker.fail(now, "broken")


def test_three_failures_in_a_row_open_it() -> None:
    breaker = Breaker()
    fail(breaker, 0.0, 2)
    assert breaker.allows(0.0) and not breaker.is_open(0.0)
    fail(breaker, 0.0)
    assert not breaker.allows(0.0) and breaker.is_open(0.0)
    assert (breaker.rest_s(0.0), breaker.problem) == (FIRST_REST_S, "broken")


def test_half_of_ten_requests_open_it() -> None:
    breaker = Breaker()
    for number in range(10):
        assert breaker.allows(number)
        breaker.start(number)
        breaker.fail(number, "broken") if number % 2 else breaker.succeed(number)
    assert not breaker.allows(9.0)


def test_old_failures_do_not_count() -> None:
    breaker = Breaker()
    for number in range(20):
        breaker.start(100.0 * number)
        breaker.fail(100.0 * number, "broken") if number % 2 else breaker.succeed(100.0 * number)
    assert breaker.allows(1900.0)


def test_one_request_tries_it_and_a_success_closes_it() -> None:
    breaker = Breaker()
    fail(breaker, 0.0, 3)
    now = FIRST_REST_S
    assert breaker.allows(now)
    breaker.start(now)
    assert not breaker.allows(now) and not breaker.takes_trial
    breaker.succeed(now)
    assert breaker.allows(now) and not breaker.is_open(now) and not breaker.problem


def test_each_failed_trial_doubles_the_rest() -> None:
    breaker, now, rests = Breaker(), 0.0, []
    fail(breaker, now, 3)
    for _ in range(6):
        rests.append(breaker.rest_s(now))
        now += rests[-1]
        fail(breaker, now)
    assert rests == [5, 10, 20, 40, MAX_REST_S, MAX_REST_S]


def test_a_cancelled_trial_lets_another_one_try() -> None:
    breaker = Breaker()
    fail(breaker, 0.0, 3)
    breaker.start(FIRST_REST_S)
    breaker.cancel()
    assert breaker.allows(FIRST_REST_S)


def test_a_server_that_says_so_rests_as_long_as_it_says() -> None:
    breaker = Breaker()
    breaker.rest(0.0, 9.0, "busy")
    assert not breaker.allows(8.9) and breaker.allows(9.0)


def test_a_server_that_is_down_is_due_during_its_rest() -> None:
    breaker = Breaker()
    fail(breaker, 0.0, 2)
    assert not breaker.is_due(0.0)
    breaker.fail(0.0, "refused", is_down=True)
    assert breaker.is_due(0.0) and not breaker.has_rested(0.0)
    breaker.stay_down(9.0, "refused")
    assert not breaker.allows(9.0)
    breaker.restart(10.0)
    assert breaker.allows(10.0) and not breaker.is_due(10.0)


def test_failures_before_a_restart_do_not_count() -> None:
    breaker = Breaker()
    fail(breaker, 0.0, 12)
    breaker.restart(1.0)
    fail(breaker, 1.0)
    assert breaker.allows(1.0)


def test_a_server_that_is_leaving_is_due_during_its_rest() -> None:
    breaker = Breaker()
    breaker.rest(0.0, 9.0, "shutting down", is_leaving=True)
    assert breaker.is_due(1.0)
    assert not breaker.is_due(9.0), "it may be tried"
