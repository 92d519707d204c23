"""Random walks over an engine with a fake runner: whatever happens, in whatever order, every row is accounted
for after each turn, and every answer is what it is alone.

Always the same few walks; `WALKS=5000 pytest tests/engine/test_walks.py` takes so many others of each kind.
"""

import random
from collections import Counter
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import strategies as st

from inference.engine.admission import Admission
from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.engine.sequence import Task
from tests.engine.conftest import END, NAN, POISON, VOCAB
from tests.walks.machine import Walk
from tests.walks.paged import PagedWitness
from tests.walks.right import KINDS, Echo
from tests.walks.seen import everything, walked
from tests.walks.seer import world_of
from tests.walks.witness import Witness
from tests.walks.world import World

ROWS: dict[str, dict[str, Any]] = {
    "roomy": {"max_rows": 6, "area": 6 * 96, "context": 96},
    "tight": {"max_rows": 6, "area": 2 * 96, "context": 96},
    "one row": {"max_rows": 1, "area": 96, "context": 96, "drafts": "foreseen"},
    "odd context": {"max_rows": 5, "area": 250, "context": 90, "drafts": "foreseen"},
    "looked up": {"max_rows": 4, "area": 300, "context": 96, "drafts": "looked up"},
    "little budget": {"max_rows": 4, "area": 300, "context": 64, "drafts": "looked up", "budget": 3},
    "in company": {"max_rows": 5, "area": 300, "context": 96, "admission": Admission(0.5, 6)},
    "crowded": {"max_rows": 6, "area": 120, "context": 96, "drafts": "foreseen", "waiting": 200},
    "in pieces": {"max_rows": 5, "area": 300, "context": 96, "piece": 16},
    "recurrent": {"max_rows": 5, "area": 200, "context": 96, "resumes": False},
    "encoder": {"max_rows": 5, "area": 200, "context": 96, "encodes": True},
    "recurrent encoder": {"max_rows": 5, "area": 200, "context": 96, "encodes": True, "resumes": False},
}
PAGES: dict[str, dict[str, Any]] = {
    "pages": {"max_rows": 6, "area": 6 * 96, "context": 96},
    "few pages": {"max_rows": 6, "area": 2 * 96, "context": 96, "drafts": "foreseen"},
    "odd pages": {"max_rows": 5, "area": 150, "context": 90, "step": 16, "drafts": "looked up"},
    "pages of one": {"max_rows": 4, "area": 100, "context": 64, "step": 1, "budget": 5, "drafts": "foreseen"},
    "pages in company": {"max_rows": 4, "area": 200, "context": 96, "admission": Admission(0.5, 6)},
    "last page": {"max_rows": 3, "area": 64, "context": 96, "drafts": "foreseen", "waiting": 200},
}
PAGES |= {f"{name}, early": shape | {"overlaps": True} for name, shape in PAGES.items()}
WALKS = 5  # of a kind, each of 50 rules and some 80 steps
EVENTS = (
    *("stop", "length", "error", "cancelled", "deadline", "Overloaded", "TooLong"),
    *("preemptions", "squeezed", "shortages", "drafted_tokens"),
)
TEXTS = tuple(tuple(random.Random(text).choices(range(1, 30), k=70)) for text in range(3))
TAILS = st.lists(st.integers(1, 29), min_size=1, max_size=8).map(tuple)


class Prompt(NamedTuple):
    """So many tokens of a text, and others behind."""

    text: int
    length: int
    tail: tuple[int, ...]
    bad: tuple[int, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        return (*TEXTS[self.text][: self.length], *self.tail, *self.bad)


class Options(NamedTuple):
    kind: str
    min_tokens: int
    ends: tuple[int, ...]
    logprobs: int | None
    prompt_logprobs: int | None

    @property
    def fields(self) -> dict[str, Any]:
        """Of a Task."""
        ends = frozenset(self.ends)
        given = {name: value for name, value in self._asdict().items() if name not in ("kind", "ends")}
        return given | {"sampling": KINDS[self.kind], "ends": ends}


class FakeWalk(Walk):
    prompts = st.builds(
        Prompt,
        text=st.integers(0, 2),
        length=st.sampled_from((0, 20, 40, 70)),
        tail=TAILS,
        bad=st.sampled_from(((),) * 20 + ((POISON,), (NAN,))),
    )
    lengths = st.sampled_from((20, 40, 30, 10, 1, 0))
    tails = TAILS
    usual = MappingProxyType({"sampling": KINDS["greedy"], "ends": frozenset({END}), "logprobs": 0})
    options = st.builds(
        Options,
        kind=st.sampled_from(tuple(KINDS)),
        min_tokens=st.sampled_from((0, 6)),
        ends=st.sampled_from(((END,), (END, *range(5, 9)), ())),
        logprobs=st.sampled_from((None, 0, 2)),
        prompt_logprobs=st.sampled_from((None, 0, 2)),
    )


def world(
    seen: Counter[str],
    kind: type[Witness] | type[PagedWitness],
    *,
    drafts: str = "none",
    budget: int = 32,
    waiting: int = 10_000,
    admission: Admission | None = None,
    piece: int = 0,
    **shape: Any,
) -> World:
    runner = kind(**shape)
    engine = Engine(
        runner,
        Sampler(VOCAB),
        max_batch_tokens=budget,
        max_queued_tokens=waiting,
        admission=admission and Admission(admission.ratio, admission.patience),
        drafts=8 if drafts == "looked up" else 0,
        piece=piece,
    )
    right = Echo(runner, engine.loop.seating.context)
    return world_of(engine, right, seen, foreseen=drafts == "foreseen")


@pytest.fixture(scope="module")
def seen() -> Iterator[Counter[str]]:
    """What came to pass in all walks of all kinds: at the end, everything that could."""
    yield from everything(EVENTS, len(ROWS) + len(PAGES))


@pytest.mark.parametrize("name", ROWS)
def test_walks_over_rows_lose_nothing_and_change_no_answer(name: str, seen: Counter[str]) -> None:
    walk(name, Witness, ROWS[name], seen)


@pytest.mark.parametrize("name", PAGES)
def test_walks_over_pages_lose_nothing_and_change_no_answer(name: str, seen: Counter[str]) -> None:
    walk(name, PagedWitness, PAGES[name], seen)


@pytest.mark.parametrize("kind", (Witness, PagedWitness))
def test_a_page_that_was_to_be_blank_harms_nobody_though_memory_ran_out(
    kind: type[Witness] | type[PagedWitness],
) -> None:
    one = world(Counter(), kind, max_rows=1, area=64, context=64)
    one.submit(Task((*range(1, 29), NAN), 5))
    one.turn(2)
    one.faults.append((torch.OutOfMemoryError("by chance"), False))
    one.submit(Task((3, 4), 30, KINDS["greedy"]))
    one.turn(3)
    one.submit(Task((5, 6), 30, KINDS["greedy"]))
    one.finish()
    assert [asked.reason for asked in one.asked.values()] == ["error", "length", "length"]


def walk(
    name: str, kind: type[Witness] | type[PagedWitness], shape: dict[str, Any], seen: Counter[str]
) -> None:
    walked(
        WALKS,
        name,
        lambda here: FakeWalk(world(here, kind, **shape)),
        seen,
        shares=shape.get("resumes", True) and not shape.get("encodes", False),
        drafts="drafts" in shape,
        early=shape.get("overlaps", False),
    )
