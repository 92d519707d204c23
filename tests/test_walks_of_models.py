"""Random walks over an engine with tiny real models.

After each turn every row is accounted for, and every answer is that of the model's plain forward. The few
walks are always the same; `WALKS=500 pytest tests/test_walks_of_models.py` runs that many others.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.model.batch import Runner
from inference.model.contiguous.encoder_decoder import EncoderDecoderRunner
from inference.model.contiguous.runner import ContiguousRunner
from inference.model.fused.extract import extract_spec
from inference.model.fused.runner import FusedRunner
from inference.model.kv_cost import WindowGroup
from inference.model.paged.kv_pool import KVPool
from inference.model.paged.runner import PagedRunner
from inference.model.runner_selection.requirements import RunnerSize
from inference.model.runner_selection.runner_options import create_pool
from inference.sampling import Sampling
from tests.model.fused.llamas import tiny_with_packed_weights
from tests.tiny_models import families
from tests.tiny_models.families import VOCAB, needs_fused, tiny
from tests.walks.event_counts import count_events, run_walks
from tests.walks.machine import EngineWalk
from tests.walks.model_reference import FaultyRunner, ModelReference
from tests.walks.oracle_world import make_world
from tests.walks.world import World

CONTEXT = 96
ROWS = 4
KV_CAPACITY = 144  # tokens
EVENTS = ("length", "stop", "error", "deadline", "preemptions", "squeezed", "oom_steps")
WALKS = 6  # per model
GREEDY = Sampling(greedy=True)
TEXTS = tuple(tuple(random.Random(text).choices(range(3, VOCAB), k=48)) for text in range(2))


def contiguous_runner(
    name: str, runner_class: type[ContiguousRunner] = ContiguousRunner, chunked_prefill: bool = True
) -> Runner:
    runner = runner_class(
        tiny(name),
        max_sequences=ROWS,
        context=CONTEXT,
        kv_capacity=KV_CAPACITY,
        chunked_prefill=chunked_prefill,
    )
    runner.page_size = 16  # columns: rows are smaller at first than they will have to be
    return runner


def paged_runner(name: str, overlaps: bool = False, window_pages: int = 0) -> Runner:
    """A runner over few pages.

    window_pages: of the layers with a sliding window; 0: they have no pages of their own.
    """
    window_groups = (WindowGroup(families.WINDOW["sliding_window"], window_pages),) if window_pages else ()
    pool = KVPool(KV_CAPACITY // 4, page_size=4, window_groups=window_groups)
    return PagedRunner(tiny(name), pool, max_sequences=ROWS, context=CONTEXT, overlap=overlaps)


def fused_runner(name: str, window_pages: int = 0) -> Runner:
    model = tiny_with_packed_weights(name)
    window_groups = (WindowGroup(families.WINDOW["sliding_window"], window_pages),) if window_pages else ()
    pool = create_pool(RunnerSize(ROWS, CONTEXT, KV_CAPACITY, window_groups))
    return FusedRunner(model, extract_spec(model, CONTEXT), pool, max_sequences=ROWS, context=CONTEXT)


RUNNERS: dict[str, Callable[[], Runner]] = {
    "llama": lambda: contiguous_runner("llama"),
    "gemma2": lambda: contiguous_runner("gemma2"),
    "gpt2": lambda: contiguous_runner("gpt2"),
    "lfm2": lambda: contiguous_runner("lfm2", chunked_prefill=False),
    "t5": lambda: contiguous_runner("t5", EncoderDecoderRunner),
    "llama paged": lambda: paged_runner("llama"),
    "gemma2 paged": lambda: paged_runner("gemma2"),
    "gpt2 paged": lambda: paged_runner("gpt2"),
    "llama paged overlapped": lambda: paged_runner("llama", overlaps=True),
    "gemma2 paged overlapped": lambda: paged_runner("gemma2", overlaps=True),
    "gemma2 fused": lambda: fused_runner("gemma2"),
    "gemma2 paged in windows": lambda: paged_runner("gemma2", window_pages=12),
    "gpt_oss paged in few windows": lambda: paged_runner("gpt_oss", window_pages=7),
    "mistral paged in windows overlapped": lambda: paged_runner("mistral", overlaps=True, window_pages=14),
    "gemma2 fused in windows": lambda: fused_runner("gemma2", window_pages=7),
}


class ModelPrompt(NamedTuple):
    """The first tokens of a text, followed by a few of the other text."""

    text: int
    length: int
    tail: int

    @property
    def ids(self) -> tuple[int, ...]:
        return (*TEXTS[self.text][: self.length], *TEXTS[1 - self.text][: self.tail])


class ModelOptions(NamedTuple):
    stop_token_ids: tuple[int, ...]
    logprobs: int | None
    prompt_logprobs: int | None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a GenerationRequest."""
        return self._asdict() | {"sampling": GREEDY, "stop_token_ids": frozenset(self.stop_token_ids)}


class ModelWalk(EngineWalk):
    prompts = st.builds(
        ModelPrompt, text=st.integers(0, 1), length=st.sampled_from((0, 20, 40)), tail=st.sampled_from((1, 7))
    )
    lengths = st.sampled_from((24, 12, 1, 0))
    tails = st.just(())
    usual = MappingProxyType({"sampling": GREEDY, "logprobs": 0})
    options = st.builds(
        ModelOptions,
        stop_token_ids=st.sampled_from(((), tuple(range(3, 20)))),
        logprobs=st.sampled_from((None, 0)),
        prompt_logprobs=st.sampled_from((None, 0)),
    )


@cache
def served(name: str) -> tuple[FaultyRunner, ModelReference]:
    """One runner for all walks of a model: the contents of its memory must not matter to the next walk."""
    runner = RUNNERS[name]()
    reference = ModelReference(
        runner.model,
        min(CONTEXT, runner.kv_capacity),
        runner.start_ids if runner.capabilities.encoder_decoder else None,
    )
    return FaultyRunner(runner), reference


def world(name: str, event_counts: Counter[str]) -> World:
    runner, reference = served(name)
    engine = Engine(runner, Sampler(VOCAB), EngineOptions(max_batch_tokens=24, max_queued_tokens=10_000))
    return make_world(
        engine,
        reference,
        event_counts,
        foreseen=runner.capabilities.chunked_prefill and not runner.capabilities.encoder_decoder,
    )


@pytest.fixture(scope="module")
def event_counts() -> Iterator[Counter[str]]:
    """Events of all walks of all models: at the end, each one must have occurred."""
    yield from count_events(EVENTS, len(RUNNERS))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_fused if "fused" in name else ()) for name in RUNNERS]
)
def test_walks_lose_no_row_and_change_no_answer_of_a_model(name: str, event_counts: Counter[str]) -> None:
    runner, _ = served(name)
    chunked_prefill = runner.capabilities.chunked_prefill and not runner.capabilities.encoder_decoder
    run_walks(
        WALKS,
        name,
        lambda here: ModelWalk(world(name, here)),
        event_counts,
        shares=chunked_prefill,
        drafts=chunked_prefill,
        early=runner.capabilities.overlap,
    )
