"""Predicted and actual memory of a model that two processes share, reported for each of them."""

from collections.abc import Iterator

import pytest

from checks.memory.plan import Plan
from inference.errors import Unavailable
from inference.factory import LoadedEngine
from inference.model.paged.kv_pool import PAGE_SIZE
from selftest.memory_report import MemoryReport
from selftest.scenarios import CollectedAnswer, make_request
from tests.selftest.planned_engine import MACHINE, ROWS, by_term, open_plan, plan_in_folder
from tests.tiny_models import families, tiny

pytestmark = pytest.mark.slow

RANKS = 2


@pytest.fixture(scope="module", params=("cohere", "mixtral"))
def planned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Plans of a model with an odd vocabulary size, and of one with experts, whose shards are equal."""
    folder = tmp_path_factory.mktemp(request.param)
    families.tiny(request.param).save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return plan_in_folder(folder, RANKS)


@pytest.fixture(scope="module")
def opened(planned: Plan) -> Iterator[LoadedEngine]:
    loaded_engine = open_plan(planned)
    yield loaded_engine
    loaded_engine.executor.close()


def test_each_rank_reports_its_memory(planned: Plan, opened: LoadedEngine) -> None:
    report = MemoryReport(planned, MACHINE, opened)
    entries = by_term(report.terms_when_ready())
    terms = ("RAM weights", "RAM programs", "RAM ready", "RAM loading")
    ranks = [f"rank {rank} {term_name}" for rank in range(RANKS) for term_name in terms]
    assert list(entries) == ["disk", "KV a token", *ranks]
    for term in ("disk", "KV a token", "rank 0 RAM weights"):
        assert entries[term].predicted == entries[term].actual > 0, term
    assert 0 < entries["rank 1 RAM weights"].actual <= entries["rank 0 RAM weights"].actual
    assert entries["rank 1 RAM ready"].actual != entries["rank 0 RAM ready"].actual
    assert entries["rank 1 RAM ready"].actual > 10**8  # its own process, with torch

    prompts = [tuple(range(10 + 20 * row, 30 + 20 * row)) for row in range(ROWS)]
    opened.engine.submit(
        [make_request(prompt, 4) for prompt in prompts], [CollectedAnswer() for _ in prompts]
    )
    opened.engine_thread.run(opened.engine.run_until_idle)
    assert planned.model_size is not None
    tokens = planned.model_size.kv_cost.per_token * 2 * PAGE_SIZE * ROWS  # each row has 20 + 4 tokens
    served = by_term(report.terms_when_full())
    for rank in range(RANKS):
        kv = served[f"rank {rank} RAM kv"]
        assert kv.predicted == tokens <= kv.actual, "the system counts whole pages"
        assert served[f"rank {rank} RAM"].actual >= entries[f"rank {rank} RAM ready"].actual


def test_nothing_is_reported_once_the_engine_has_ended(planned: Plan, opened: LoadedEngine) -> None:
    report = MemoryReport(planned, MACHINE, opened)
    opened.engine.stop()
    with pytest.raises(Unavailable):
        report.terms_when_full()
