"""Random walks over an engine with a fake runner.

After each turn every row is accounted for, and every answer equals that of the same request alone.

The walks are always the same few; `WALKS=5000 pytest tests/engine/test_walks.py` runs that many others of
each kind.
"""

import random
from collections import Counter
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import strategies as st

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.engine.scheduling.waiting_served_ratio import WaitingServedRatio
from inference.model.kv_cost import WindowGroup
from tests.engine.conftest import END, NAN, POISON, VOCAB
from tests.engine.engine_probe import EngineProbe
from tests.engine.generation_requests import make_request
from tests.walks.async_device import AsyncEchoRunner, AsyncSampler
from tests.walks.echo_reference import KINDS, EchoReference
from tests.walks.echo_runner import EchoRunner
from tests.walks.event_counts import count_events, run_walks
from tests.walks.machine import EngineWalk
from tests.walks.oracle_world import make_world
from tests.walks.paged_echo_runner import PagedEchoRunner
from tests.walks.world import World

ROWS: dict[str, dict[str, Any]] = {
    "roomy": {"max_sequences": 6, "kv_capacity": 6 * 96, "context": 96},
    "tight": {"max_sequences": 6, "kv_capacity": 2 * 96, "context": 96},
    "one row": {"max_sequences": 1, "kv_capacity": 96, "context": 96, "drafts": "foreseen"},
    "odd context": {"max_sequences": 5, "kv_capacity": 250, "context": 90, "drafts": "foreseen"},
    "looked up": {"max_sequences": 4, "kv_capacity": 300, "context": 96, "drafts": "looked up"},
    "little budget": {
        "max_sequences": 4,
        "kv_capacity": 300,
        "context": 64,
        "drafts": "looked up",
        "budget": 3,
    },
    "in company": {
        "max_sequences": 5,
        "kv_capacity": 300,
        "context": 96,
        "admission": WaitingServedRatio(0.5, 6),
    },
    "crowded": {"max_sequences": 6, "kv_capacity": 120, "context": 96, "drafts": "foreseen", "waiting": 200},
    "in pieces": {"max_sequences": 5, "kv_capacity": 300, "context": 96, "prefill_chunk_size": 16},
    "recurrent": {"max_sequences": 5, "kv_capacity": 200, "context": 96, "chunked_prefill": False},
    "encoder": {"max_sequences": 5, "kv_capacity": 200, "context": 96, "encoder_decoder": True},
    "recurrent encoder": {
        "max_sequences": 5,
        "kv_capacity": 200,
        "context": 96,
        "encoder_decoder": True,
        "chunked_prefill": False,
    },
}
PAGES: dict[str, dict[str, Any]] = {
    "pages": {"max_sequences": 6, "kv_capacity": 6 * 96, "context": 96},
    "few pages": {"max_sequences": 6, "kv_capacity": 2 * 96, "context": 96, "drafts": "foreseen"},
    "odd pages": {
        "max_sequences": 5,
        "kv_capacity": 150,
        "context": 90,
        "page_size": 16,
        "drafts": "looked up",
    },
    "pages of one": {
        "max_sequences": 4,
        "kv_capacity": 100,
        "context": 64,
        "page_size": 1,
        "budget": 5,
        "drafts": "foreseen",
    },
    "pages in company": {
        "max_sequences": 4,
        "kv_capacity": 200,
        "context": 96,
        "admission": WaitingServedRatio(0.5, 6),
    },
    "last page": {"max_sequences": 3, "kv_capacity": 64, "context": 96, "drafts": "foreseen", "waiting": 200},
}
PAGES |= {
    "windows": PAGES["pages"] | {"window_groups": (WindowGroup(10, 40),)},
    "few pages in windows": PAGES["few pages"] | {"window_groups": (WindowGroup(7, 12), WindowGroup(20, 18))},
    "windows of odd pages": PAGES["odd pages"] | {"window_groups": (WindowGroup(17, 5),)},
    "windows of one": PAGES["pages of one"] | {"window_groups": (WindowGroup(1, 9), WindowGroup(8, 20))},
    "the last window": PAGES["last page"] | {"window_groups": (WindowGroup(12, 9),)},
}
# Steps are launched early here alone: with results known at once, the engine meets fewer orders of events.
ASYNC = {f"{name}, asynchronous": shape | {"overlap": True} for name, shape in PAGES.items()}
WALKS = 5  # per kind, each of 50 rules and some 80 steps
RunnerKind = type[EchoRunner] | type[PagedEchoRunner] | type[AsyncEchoRunner]
EVENTS = (
    *("stop", "length", "error", "cancelled", "deadline", "Overloaded", "TooLong"),
    *("preemptions", "squeezed", "oom_steps", "drafted_tokens"),
)
TEXTS = tuple(tuple(random.Random(text).choices(range(1, 30), k=70)) for text in range(3))
TAILS = st.lists(st.integers(1, 29), min_size=1, max_size=8).map(tuple)


class Prompt(NamedTuple):
    """The first tokens of a text, followed by others."""

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
    stop_token_ids: tuple[int, ...]
    logprobs: int | None
    prompt_logprobs: int | None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a GenerationRequest."""
        values = {name: value for name, value in self._asdict().items() if name != "kind"}
        return values | {"sampling": KINDS[self.kind], "stop_token_ids": frozenset(self.stop_token_ids)}


class FakeEngineWalk(EngineWalk):
    prompts = st.builds(
        Prompt,
        text=st.integers(0, 2),
        length=st.sampled_from((0, 20, 40, 70)),
        tail=TAILS,
        bad=st.sampled_from(((),) * 20 + ((POISON,), (NAN,))),
    )
    lengths = st.sampled_from((20, 40, 30, 10, 1, 0))
    tails = TAILS
    usual = MappingProxyType({"sampling": KINDS["greedy"], "stop_token_ids": frozenset({END}), "logprobs": 0})
    options = st.builds(
        Options,
        kind=st.sampled_from(tuple(KINDS)),
        min_tokens=st.sampled_from((0, 6)),
        stop_token_ids=st.sampled_from(((END,), (END, *range(5, 9)), ())),
        logprobs=st.sampled_from((None, 0, 2)),
        prompt_logprobs=st.sampled_from((None, 0, 2)),
    )


def world(
    event_counts: Counter[str],
    kind: RunnerKind,
    *,
    drafts: str = "none",
    budget: int = 32,
    waiting: int = 10_000,
    admission: WaitingServedRatio | None = None,
    prefill_chunk_size: int = 0,
    **shape: Any,
) -> World:
    runner = kind(**shape)
    engine = Engine(
        runner,
        AsyncSampler(runner) if isinstance(runner, AsyncEchoRunner) else Sampler(VOCAB),
        EngineOptions(
            max_batch_tokens=budget,
            max_queued_tokens=waiting,
            admission_policy=admission
            and WaitingServedRatio(admission.waiting_served_ratio, admission.max_waiting_tokens),
            speculate=8 if drafts == "looked up" else 0,
            prefill_chunk_size=prefill_chunk_size,
        ),
    )
    reference = EchoReference(runner, EngineProbe(engine).context)
    return make_world(engine, reference, event_counts, foreseen=drafts == "foreseen")


@pytest.fixture(scope="module")
def event_counts() -> Iterator[Counter[str]]:
    """Events of all walks of all kinds: at the end, each one must have occurred."""
    yield from count_events(EVENTS, len(ROWS) + len(PAGES) + len(ASYNC))


@pytest.mark.parametrize("name", ROWS)
def test_walks_over_rows_lose_nothing_and_change_no_answer(name: str, event_counts: Counter[str]) -> None:
    walk(name, EchoRunner, ROWS[name], event_counts)


@pytest.mark.parametrize("name", PAGES)
def test_walks_over_pages_lose_nothing_and_change_no_answer(name: str, event_counts: Counter[str]) -> None:
    walk(name, PagedEchoRunner, PAGES[name], event_counts)


@pytest.mark.parametrize("name", ASYNC)
def test_walks_with_unknown_results_lose_nothing_and_change_no_answer(
    name: str, event_counts: Counter[str]
) -> None:
    walk(name, AsyncEchoRunner, ASYNC[name], event_counts)


@pytest.mark.parametrize("kind", (EchoRunner, PagedEchoRunner, AsyncEchoRunner))
def test_a_page_still_to_be_zeroed_harms_no_other_after_running_out_of_memory(kind: RunnerKind) -> None:
    small_world = world(Counter(), kind, max_sequences=1, kv_capacity=64, context=64)
    small_world.submit(make_request((*range(1, 29), NAN), 5))
    small_world.turn(2)
    small_world.faults.append((torch.OutOfMemoryError("by chance"), False))
    small_world.submit(make_request((3, 4), 30, KINDS["greedy"]))
    small_world.turn(3)
    small_world.submit(make_request((5, 6), 30, KINDS["greedy"]))
    small_world.finish()
    assert [request.finish_reason for request in small_world.requests.values()] == [
        "error",
        "length",
        "length",
    ]


def walk(
    name: str,
    kind: RunnerKind,
    shape: dict[str, Any],
    event_counts: Counter[str],
) -> None:
    run_walks(
        WALKS,
        name,
        lambda here: FakeEngineWalk(world(here, kind, **shape)),
        event_counts,
        shares=shape.get("chunked_prefill", True) and not shape.get("encoder_decoder", False),
        drafts="drafts" in shape,
        early=shape.get("overlap", False),
    )
