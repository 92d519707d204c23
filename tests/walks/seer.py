"""Drafts that are often right and sometimes wrong, whatever is asked."""

from collections import Counter

from inference.engine.engine import Engine
from inference.engine.sequence import Sequence
from tests.engine.prophet import Prophet
from tests.walks.verdict import Right
from tests.walks.world import World


class Seer(Prophet):
    """Knows what the world holds to be right."""

    def __init__(self, world: World) -> None:
        super().__init__(world.engine.loop.seating, {})
        self.world = world

    def answer(self, sequence: Sequence) -> list[int]:
        if sequence.id not in self.answers:
            choices = self.world.right.choices(sequence.task)
            self.answers[sequence.id] = [choice.id for choice in choices if choice.id >= 0]
        return self.answers[sequence.id]


def world_of(engine: Engine, right: Right, seen: Counter[str], foreseen: bool) -> World:
    """The world of an engine whose runner can fail; `foreseen`: its drafts are a seer's."""
    world = World(engine, right, seen)
    engine.loop.runner.fault = world.fail
    if foreseen:
        engine.loop.speculator = Seer(world)
    return world
