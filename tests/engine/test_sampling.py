"""The engine with the real sampler: all kinds of requests in one batch, and one that excludes every token."""

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.sampling.sampler import Sampler
from inference.errors import BadRequest
from inference.sampling import PenaltyWindow, Sampling, Watermark
from tests.engine.conftest import FakeRunner, RecordingSink
from tests.engine.generation_requests import make_request

KINDS = {
    "plain": Sampling(),
    "greedy": Sampling(greedy=True),
    "typical": Sampling(typical_p=0.7, tgi_frequency_penalty=0.9),
    "tail free": Sampling(tfs=0.9, penalty_window=PenaltyWindow((3, 4, 5), 1.8, 5, slope=2.0)),
    "top a": Sampling(top_a=0.3, temperature=1.5, watermark=Watermark()),
    "ordered": Sampling(
        top_p=0.8, temperature=3.0, repetition_penalty=1.5, warper_order=("top_p", "repetition")
    ),
    "never twice": Sampling(no_repeat_ngram_size=2, temperature=0.3),
    "banned": Sampling(greedy=True, bad_words_ids=((7,), (8, 9), (9, 10)), banned_first=frozenset((11,))),
    "allowed": Sampling(allowed_token_ids=frozenset(range(5, 15)), min_p=0.01),
    "window": Sampling(
        greedy=True, penalty_window=PenaltyWindow((6,), 1.4, 3, scope="expand", clamp_length=True)
    ),
}
EMPTY = Sampling(greedy=True, allowed_token_ids=frozenset((6, 7)), no_repeat_ngram_size=1)


@pytest.fixture
def engine() -> Engine:
    runner = FakeRunner(max_sequences=16, kv_capacity=16 * 64)
    return Engine(runner, Sampler(runner.vocab), max_batch_tokens=64, max_queued_tokens=10_000)


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
