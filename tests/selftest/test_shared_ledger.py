"""What was predicted beside what came, of a model that two processes share: told of each of them."""

from collections.abc import Iterator

import pytest

from checks.plan import Plan
from inference.errors import Unavailable
from inference.model.packed.runner import SIZE
from inference.opening import Opened
from selftest.asked import Answer, task
from selftest.ledger import Ledger
from tests import families, tiny
from tests.selftest.ledgers import MACHINE, ROWS, by_term, opened_as, planned_in

pytestmark = pytest.mark.slow

RANKS = 2


@pytest.fixture(scope="module", params=("llama", "cohere", "mixtral"))
def planned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Of a model whose parts are alike, of one whose vocabulary is odd, and of experts."""
    folder = tmp_path_factory.mktemp(request.param)
    families.tiny(request.param).save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return planned_in(folder, RANKS)


@pytest.fixture(scope="module")
def opened(planned: Plan) -> Iterator[Opened]:
    made = opened_as(planned)
    yield made
    made.crew.close()


def test_each_rank_tells_what_it_holds(planned: Plan, opened: Opened) -> None:
    ledger = Ledger(planned, MACHINE, opened)
    found = by_term(ledger.loaded())
    parts = ("RAM weights", "RAM programs", "RAM ready", "RAM loading")
    ranks = [f"rank {rank} {part}" for rank in range(RANKS) for part in parts]
    assert list(found) == ["disk", "KV a token", *ranks]
    for term in ("disk", "KV a token", "rank 0 RAM weights"):
        assert found[term].predicted == found[term].actual > 0, term
    assert 0 < found["rank 1 RAM weights"].actual <= found["rank 0 RAM weights"].actual
    assert found["rank 1 RAM ready"].actual != found["rank 0 RAM ready"].actual
    assert found["rank 1 RAM ready"].actual > 10**8  # a process of its own, with torch in it

    prompts = [tuple(range(10 + 20 * row, 30 + 20 * row)) for row in range(ROWS)]
    opened.engine.submit([task(prompt, 4) for prompt in prompts], [Answer() for _ in prompts])
    opened.worker.do(opened.engine.finish)
    assert planned.measure is not None
    tokens = planned.measure.token * 2 * SIZE * ROWS  # of 20 + 4 tokens
    served = by_term(ledger.served())
    for rank in range(RANKS):
        kv = served[f"rank {rank} RAM kv"]
        assert kv.predicted == tokens <= kv.actual, "the system has pages of its own"
        assert served[f"rank {rank} RAM"].actual >= found[f"rank {rank} RAM ready"].actual


def test_nothing_is_told_once_the_engine_has_ended(planned: Plan, opened: Opened) -> None:
    ledger = Ledger(planned, MACHINE, opened)
    opened.engine.stop()
    with pytest.raises(Unavailable):
        ledger.served()
