"""Real models give the same answers with and without drafts: greedy and sampled, alone and together."""

import random

import pytest

from inference.engine.speculation.ngram_proposer import NgramProposer
from inference.sampling import Sampling
from tests.engine.engine_probe import EngineProbe
from tests.engine.generation_requests import make_request
from tests.engine.oracle_proposer import SeededOracleProposer
from tests.engine.speculating_engine import engine, generate, requests
from tests.tiny_models.families import tiny

FAST = ("llama", "mistral", "gpt_neo", "bloom", "openai-gpt")
SLOW = ("gemma2", "gpt2", "falcon", "mixtral", "gpt_bigcode")


@pytest.mark.parametrize("family", [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_drafts_change_no_answer_of_a_family(family: str) -> None:
    served = engine(tiny(family))
    plain = generate(served, requests())
    probe = EngineProbe(served)
    known = SeededOracleProposer(
        probe.kv_cache, {seed: collector.ids for seed, collector in enumerate(plain)}
    )
    for speculator, chance in (
        (NgramProposer(probe.kv_cache, 8), None),
        (known, None),
        (known, random.Random(family)),
    ):
        probe.set_proposer(speculator)
        drafted = generate(served, requests(), chance)
        assert [collector.ids for collector in drafted] == [collector.ids for collector in plain]
        for drafted_answer, plain_answer in zip(drafted, plain, strict=True):
            assert drafted_answer.logprobs == pytest.approx(plain_answer.logprobs, abs=1e-4)
    assert (
        sum(collector.num_outputs for collector in drafted)
        < sum(collector.num_outputs for collector in plain) / 2
    )
    assert 0 < served.stats().accepted_tokens < served.stats().drafted_tokens
    assert 0 < served.stats().drafts < served.stats().drafted_tokens


def test_most_drafts_are_accepted_if_a_model_repeats_itself() -> None:
    served = engine(tiny("llama"))
    probe = EngineProbe(served)
    probe.set_proposer(NgramProposer(probe.kv_cache, 8))
    (collector,) = generate(
        served, [make_request((5, 6, 7), 60, Sampling(greedy=True, allowed_token_ids=frozenset({5, 6, 7})))]
    )
    assert len(collector.ids) == 60 and collector.num_outputs < 30
    assert served.stats().accepted_tokens == 60 - collector.num_outputs
