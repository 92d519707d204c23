"""Random walks over an engine, as hypothesis takes them and shortens those that fail.

The rules are what can happen to an engine. Each then lets it take some turns, for a walk may leave any rule
out, but not those; the world checks its accounts after each.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

import torch
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    multiple,
    rule,
    run_state_machine_as_test,
)

from inference.engine.sequence import Task
from tests.walks.verdict import Asked
from tests.walks.world import World

LONG = int(os.environ.get("WALKS", 0))
ASKED = Bundle("asked")
TURNS = st.integers(0, 4)
PROMPTS = st.runner().flatmap(lambda walk: walk.prompts)
OPTIONS = st.runner().flatmap(lambda walk: walk.options)
LENGTHS = st.runner().flatmap(lambda walk: walk.lengths)
TAILS = st.runner().flatmap(lambda walk: walk.tails)


class Prompt(Protocol):
    ids: tuple[int, ...]


class Options(Protocol):
    fields: dict[str, Any]


class Walk(RuleBasedStateMachine):
    """Over the engine of a world. What there is to be asked is a subclass's.

    lengths  of answers
    usual    options of a task
    options  other ones
    tails    what may follow an answer in the next prompt
    """

    prompts: ClassVar[st.SearchStrategy[Prompt]]
    lengths: ClassVar[st.SearchStrategy[int]]
    usual: ClassVar[Mapping[str, Any]]
    options: ClassVar[st.SearchStrategy[Options]]
    tails: ClassVar[st.SearchStrategy[tuple[int, ...]]]

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.stops = False

    @initialize(stops=st.integers(0, 9))
    def begin(self, stops: int) -> None:
        self.stops = stops == 9

    @rule(target=ASKED, prompts=st.lists(PROMPTS, min_size=2, max_size=8), length=LENGTHS, turns=TURNS)
    def submit(self, prompts: list[Prompt], length: int, turns: int) -> Any:
        """Each on its own, in the usual way."""
        asked = [
            one for prompt in prompts for one in self.world.submit(Task(prompt.ids, length, **self.usual))
        ]
        self.world.turn(turns)
        return multiple(*asked)

    @rule(
        target=ASKED, prompt=PROMPTS, length=LENGTHS, options=OPTIONS, copies=st.integers(1, 3), turns=TURNS
    )
    def submit_unusual(self, prompt: Prompt, length: int, options: Options, copies: int, turns: int) -> Any:
        """Several answers to one prompt, which are entered together or not at all."""
        asked = self.world.submit(
            *(Task(prompt.ids, length, seed=seed, **options.fields) for seed in range(copies))
        )
        self.world.turn(turns)
        return multiple(*asked)

    @rule(target=ASKED, prompt=PROMPTS, length=LENGTHS, seconds=st.integers(0, 30), turns=TURNS)
    def submit_hurried(self, prompt: Prompt, length: int, seconds: int, turns: int) -> Any:
        deadline = self.world.clock.now + seconds
        asked = self.world.submit(Task(prompt.ids, length, deadline=deadline, **self.usual))
        self.world.turn(turns)
        return multiple(*asked)

    @rule(target=ASKED, one=ASKED, tail=TAILS, length=LENGTHS, turns=TURNS)
    def go_on(self, one: Asked, tail: tuple[int, ...], length: int, turns: int) -> Any:
        """Ask again, with the answer so far as part of the prompt."""
        asked = self.world.submit(Task((*one.task.ids, *one.ids, *tail), length, **self.usual))
        self.world.turn(turns)
        return multiple(*asked)

    @rule(one=ASKED, turns=TURNS)
    def cancel(self, one: Asked, turns: int) -> None:
        self.world.cancel(one)
        self.world.turn(turns)

    @rule(number=st.integers(0, 5), turns=TURNS)
    def preempt(self, number: int, turns: int) -> None:
        self.world.preempt(number)
        self.world.check()
        self.world.turn(turns)

    @rule(moved=st.booleans(), turns=TURNS)
    def run_short(self, moved: bool, turns: int) -> None:
        """The next step finds too little memory."""
        self.world.faults.append((torch.OutOfMemoryError("by chance"), moved))
        self.world.turn(turns)

    @rule(turns=TURNS)
    def stumble(self, turns: int) -> None:
        """The next step fails for no reason that lasts."""
        self.world.faults.append((RuntimeError("by chance"), True))
        self.world.turn(turns)

    @rule(steps=st.integers(0, 6), fails=st.booleans(), turns=TURNS)
    def run_errand(self, steps: int, fails: bool, turns: int) -> None:
        self.world.errand(steps, fails)
        self.world.turn(turns)

    @rule(turns=st.integers(1, 15))
    def turn(self, turns: int) -> None:
        self.world.turn(turns)

    def teardown(self) -> None:
        self.world.finish(self.stops)


def take(walks: int, name: str, made: Callable[[], Walk], steps: int = 50) -> None:
    """So many walks, always the same ones for a name; WALKS other ones where the environment sets that."""

    def factory() -> Walk:
        return made()

    run_state_machine_as_test(
        factory if LONG else seed(name)(factory),
        settings=settings(
            max_examples=LONG or walks,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
