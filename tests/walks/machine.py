"""Random walks over an engine as a hypothesis state machine, which shrinks walks that fail.

The rules are the events of an engine. Each rule also takes some turns, because a walk may leave out any rule;
the world checks the invariants after each turn.
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

from tests.engine.generation_requests import make_request
from tests.walks.tracked_request import TrackedRequest
from tests.walks.world import World

LONG = int(os.environ.get("WALKS", 0))
REQUESTS = Bundle("requests")
TURNS = st.integers(0, 4)
PROMPTS = st.runner().flatmap(lambda walk: walk.prompts)
OPTIONS = st.runner().flatmap(lambda walk: walk.options)
LENGTHS = st.runner().flatmap(lambda walk: walk.lengths)
TAILS = st.runner().flatmap(lambda walk: walk.tails)


class PromptLike(Protocol):
    ids: tuple[int, ...]


class OptionsLike(Protocol):
    fields: dict[str, Any]


class EngineWalk(RuleBasedStateMachine):
    """A walk over the engine of a world. Subclasses define the requests.

    lengths  of answers
    usual    usual options of a request
    options  other options
    tails    tokens that may follow an answer in the next prompt
    """

    prompts: ClassVar[st.SearchStrategy[PromptLike]]
    lengths: ClassVar[st.SearchStrategy[int]]
    usual: ClassVar[Mapping[str, Any]]
    options: ClassVar[st.SearchStrategy[OptionsLike]]
    tails: ClassVar[st.SearchStrategy[tuple[int, ...]]]

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.stops = False

    @initialize(stops=st.integers(0, 9))
    def begin(self, stops: int) -> None:
        self.stops = stops == 9

    @rule(target=REQUESTS, prompts=st.lists(PROMPTS, min_size=2, max_size=8), length=LENGTHS, turns=TURNS)
    def submit(self, prompts: list[PromptLike], length: int, turns: int) -> Any:
        """Submits requests with the usual options, one by one."""
        requests = [
            one
            for prompt in prompts
            for one in self.world.submit(make_request(prompt.ids, length, **self.usual))
        ]
        self.world.turn(turns)
        return multiple(*requests)

    @rule(
        target=REQUESTS,
        prompt=PROMPTS,
        length=LENGTHS,
        options=OPTIONS,
        copies=st.integers(1, 3),
        turns=TURNS,
    )
    def submit_unusual(
        self, prompt: PromptLike, length: int, options: OptionsLike, copies: int, turns: int
    ) -> Any:
        """Submits several requests with one prompt, which are queued together or not at all."""
        requests = self.world.submit(
            *(make_request(prompt.ids, length, seed=seed, **options.fields) for seed in range(copies))
        )
        self.world.turn(turns)
        return multiple(*requests)

    @rule(target=REQUESTS, prompts=st.lists(PROMPTS, min_size=1, max_size=8), length=LENGTHS, turns=TURNS)
    def submit_in_background(self, prompts: list[PromptLike], length: int, turns: int) -> Any:
        requests = [
            one
            for prompt in prompts
            for one in self.world.submit(make_request(prompt.ids, length, in_background=True, **self.usual))
        ]
        self.world.turn(turns)
        return multiple(*requests)

    @rule(target=REQUESTS, prompt=PROMPTS, length=LENGTHS, seconds=st.integers(0, 30), turns=TURNS)
    def submit_hurried(self, prompt: PromptLike, length: int, seconds: int, turns: int) -> Any:
        requests = self.world.submit(make_request(prompt.ids, length, deadline=seconds, **self.usual))
        self.world.turn(turns)
        return multiple(*requests)

    @rule(target=REQUESTS, one=REQUESTS, tail=TAILS, length=LENGTHS, turns=TURNS)
    def follow_up(self, one: TrackedRequest, tail: tuple[int, ...], length: int, turns: int) -> Any:
        """Submits again, with the answer so far as part of the prompt."""
        requests = self.world.submit(
            make_request((*one.generation_request.prompt, *one.token_ids, *tail), length, **self.usual)
        )
        self.world.turn(turns)
        return multiple(*requests)

    @rule(one=REQUESTS, turns=TURNS)
    def cancel(self, one: TrackedRequest, turns: int) -> None:
        self.world.cancel(one)
        self.world.turn(turns)

    @rule(number=st.integers(0, 5), turns=TURNS)
    def preempt(self, number: int, turns: int) -> None:
        self.world.preempt(number)
        self.world.check()
        self.world.turn(turns)

    @rule(moved=st.booleans(), turns=TURNS)
    def run_short(self, moved: bool, turns: int) -> None:
        """The next step runs out of memory."""
        self.world.faults.append((torch.OutOfMemoryError("by chance"), moved))
        self.world.turn(turns)

    @rule(turns=TURNS)
    def stumble(self, turns: int) -> None:
        """The next step fails once."""
        self.world.faults.append((RuntimeError("by chance"), True))
        self.world.turn(turns)

    @rule(steps=st.integers(0, 6), fails=st.booleans(), turns=TURNS)
    def run_background_task(self, steps: int, fails: bool, turns: int) -> None:
        self.world.run_background_task(steps, fails)
        self.world.turn(turns)

    @rule(turns=st.integers(1, 15))
    def turn(self, turns: int) -> None:
        self.world.turn(turns)

    def teardown(self) -> None:
        self.world.finish(self.stops)


def run_walk_machine(walks: int, name: str, make_walk: Callable[[], EngineWalk], steps: int = 50) -> None:
    """Runs `walks` walks, always the same ones for a name; or WALKS other ones, if that environment variable
    is set.
    """

    def factory() -> EngineWalk:
        return make_walk()

    run_state_machine_as_test(
        factory if LONG else seed(name)(factory),
        settings=settings(
            max_examples=LONG or walks,
            derandomize=False,  # `seed` decides
            stateful_step_count=steps,
            deadline=None,
            database=None,
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
