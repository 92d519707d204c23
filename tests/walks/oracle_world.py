"""A world whose drafts are often right and sometimes wrong."""

from collections import Counter

from inference.engine.engine import Engine
from inference.engine.sequence import Sequence
from tests.engine.oracle_proposer import OracleProposer
from tests.walks.tracked_request import ReferenceOutputs
from tests.walks.world import World


class WorldOracleProposer(OracleProposer):
    """Drafts from the world's expected answers."""

    def __init__(self, world: World) -> None:
        super().__init__(world.probe.kv_cache, {})
        self.world = world

    def expected_output(self, sequence: Sequence) -> list[int]:
        if sequence.id not in self.expected_outputs:
            choices = self.world.reference.choices(sequence.request)
            self.expected_outputs[sequence.id] = [choice.id for choice in choices if choice.id >= 0]
        return self.expected_outputs[sequence.id]


def make_world(
    engine: Engine, reference: ReferenceOutputs, event_counts: Counter[str], foreseen: bool
) -> World:
    """The world of an engine whose runner can fail; with `foreseen`, a WorldOracleProposer drafts."""
    world = World(engine, reference, event_counts)
    world.probe.runner.on_forward = world.fail
    if foreseen:
        world.probe.set_proposer(WorldOracleProposer(world))
    return world
