"""The slots seat against the plain, uncached forward of each sequence alone."""

import pytest

from inference.model.slots import SlotRunner
from inference.model.sources import SourceRunner
from tests.families import ATTENTION, CONTEXT, ENCODERS, FAMILIES, tiny
from tests.walk import Walk

SAMPLE = ("llama", "mistral", "gemma2", "gpt_neo", "bloom", "jamba", "t5", "bart")
REST = [pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES if name not in SAMPLE]


def runner(name: str) -> SlotRunner:
    model = tiny(name)
    seat = SourceRunner if name in ENCODERS else SlotRunner
    resumes = name in ATTENTION or name in ENCODERS
    return seat(model, max_rows=4, context=CONTEXT, area=4 * CONTEXT, resumes=resumes)


@pytest.mark.parametrize("name", [*SAMPLE, *REST])
def test_rows_that_come_and_go_compute_what_each_computes_alone(name: str) -> None:
    slots = runner(name)
    walk = Walk(slots.model, slots, seed=3)
    walk.go(16)
    assert walk.checked > 30
    assert walk.error < 1e-4
