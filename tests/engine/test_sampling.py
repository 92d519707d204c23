"""The engine with the real sampler: all kinds of requests in one batch, and one that excludes every token."""

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.errors import BadRequest
from inference.sampling import Sampling
from tests.engine.conftest import FakeRunner, RecordingSink
from tests.engine.generation_requests import make_request
from tests.engine.sampling_kinds import KINDS

EMPTY = Sampling(greedy=True, allowed_token_ids=frozenset((6, 7)), no_repeat_ngram_size=1)


@pytest.fixture
def engine() -> Engine:
    runner = FakeRunner(max_sequences=16, kv_capacity=16 * 64)
    return Engine(runner, Sampler(runner.vocab), EngineOptions(max_batch_tokens=64, max_queued_tokens=10_000))


def generate_together(engine: Engine, shapes: dict[str, Sampling]) -> dict[str, RecordingSink]:
    """The outputs of these requests, computed in one batch."""
    sinks = {name: RecordingSink() for name in shapes}
    requests = [
        make_request((3, 4, 5), 12, shape, seed=4, logprobs=2, processed_logprobs=True)
        for shape in shapes.values()
    ]
    engine.submit(requests, list(sinks.values()))
    with torch.inference_mode():
        while engine.step():
            pass
    return sinks


def test_other_requests_in_the_batch_change_no_answer(engine: Engine) -> None:
    together = generate_together(engine, KINDS)
    for name, shape in KINDS.items():
        alone = generate_together(engine, {name: shape})[name]
        assert outputs_of(alone) == outputs_of(together[name]), name
        assert len(alone.token_ids) == 12
    assert len({tuple(sink.token_ids) for sink in together.values()}) > 5


def test_a_request_that_excludes_every_token_fails_alone_with_bad_request(engine: Engine) -> None:
    sinks = generate_together(engine, {"empty": EMPTY, **KINDS})
    assert len(sinks["empty"].token_ids) == 2
    error = sinks["empty"].outputs[-1].error
    assert isinstance(error, BadRequest) and "no token is left to choose" in error.message
    assert all(sinks[name].finish_reason == "length" for name in KINDS)
    assert engine.consecutive_failures == 0


def test_a_request_that_excludes_every_first_token_is_refused_at_once(engine: Engine) -> None:
    request = make_request((3, 4), 5, Sampling(allowed_token_ids=frozenset((9,)), bad_words_ids=((9,),)))
    with pytest.raises(BadRequest, match="no token is left to choose"):
        engine.submit([request], [RecordingSink()])


def outputs_of(sink: RecordingSink) -> list[tuple[object, ...]]:
    return [(record.token_ids, record.logprobs, record.top_logprobs) for record in sink.outputs]
