"""Calls cross from any thread to the one that owns the data, until it closes."""

import threading
from collections.abc import Iterator

import pytest

from inference.errors import Unavailable
from tuning.commands import Commands


@pytest.fixture
def commands() -> Iterator[Commands]:
    commands = Commands()

    def own() -> None:
        while not commands.is_closed:
            commands.run(None)
        commands.run()

    owner = threading.Thread(target=own)
    owner.start()
    yield commands
    commands.close()
    owner.join(60)
    assert not owner.is_alive()


def test_a_call_runs_on_the_thread_of_the_owner_and_returns_its_result(commands: Commands) -> None:
    assert commands.call(threading.get_ident) != threading.get_ident()
    assert commands.call(divmod, 7, 2) == (3, 1)


def test_a_call_raises_what_its_function_raises(commands: Commands) -> None:
    with pytest.raises(ZeroDivisionError):
        commands.call(divmod, 7, 0)
    assert commands.call(divmod, 7, 2) == (3, 1)


def test_a_call_after_the_end_is_refused(commands: Commands) -> None:
    commands.close()
    with pytest.raises(Unavailable):
        commands.call(divmod, 7, 2)


def test_calls_that_race_with_the_end_return_or_are_refused(commands: Commands) -> None:
    ends: list[str] = []

    def call() -> None:
        try:
            while True:
                commands.call(divmod, 7, 2)
        except Unavailable:
            ends.append("refused")

    callers = [threading.Thread(target=call, daemon=True) for _ in range(8)]
    for caller in callers:
        caller.start()
    commands.close()
    for caller in callers:
        caller.join(60)
    assert ends == ["refused"] * 8


def test_without_commands_a_run_ends_at_its_timeout() -> None:
    Commands().run(0.01)
