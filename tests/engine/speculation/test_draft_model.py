"""A draft model changes no answer, and where it agrees with the large model its drafts are accepted."""

import random

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.sampling.sampler import Sampler
from inference.engine.sequence import Sequence
from inference.engine.speculation.draft_model import DraftModel
from inference.engine.speculation.draft_model_proposer import DraftModelProposer
from inference.model.runner_selection.requirements import RunnerLimits
from inference.model.runner_selection.select_runner import select_runner
from tests.engine.engine_probe import EngineProbe
from tests.engine.speculating_engine import engine, generate, requests
from tests.tiny_models.families import VOCAB, tiny

SPECULATE = 4


def draft_model(family: str, context: int = 80, kv_memory_bytes: int = 1 << 22) -> DraftModel:
    runner = select_runner(
        tiny(family),
        RunnerLimits(max_sequences=4, context=context, kv_memory_bytes=kv_memory_bytes),
    ).runner
    return DraftModel(runner, Sampler(VOCAB))


class ConstantProposer(DraftModelProposer):
    """Proposes SPECULATE drafts in every step without a prompt, whether or not they pay."""

    def _num_drafts(self, sequences: list[Sequence], max_drafts: int) -> int:
        return max_drafts


def set_draft_model(served: Engine, model: DraftModel) -> DraftModelProposer:
    probe = EngineProbe(served)
    proposer = ConstantProposer(model, probe.kv_cache, SPECULATE)
    probe.set_proposer(proposer)
    return proposer


@pytest.mark.parametrize("is_random", [False, True])
@pytest.mark.parametrize(
    ("family", "drafter"), [("llama", "llama"), ("llama", "gpt2"), ("mistral", "mistral")]
)
def test_drafts_change_no_answer(family: str, drafter: str, is_random: bool) -> None:
    served, chance = engine(tiny(family)), random.Random(3) if is_random else None
    plain = generate(served, requests())
    set_draft_model(served, draft_model(drafter))
    drafted = generate(served, requests(), chance)
    assert [collector.ids for collector in drafted] == [collector.ids for collector in plain]
    for drafted_answer, plain_answer in zip(drafted, plain, strict=True):
        assert drafted_answer.logprobs == pytest.approx(plain_answer.logprobs, abs=1e-4)
    stats = served.stats()
    assert stats.drafted_tokens > 50
    if family == drafter:  # the same weights and the same noise
        assert stats.accepted_tokens > 0.95 * stats.drafted_tokens


def test_an_idle_engine_leaves_no_copy() -> None:
    served, model = engine(tiny("llama")), draft_model("llama")
    set_draft_model(served, model)
    generate(served, requests())
    assert not model.kv_cache_manager.active
    model.kv_cache_manager.check_integrity()


def test_a_sequence_beyond_the_memory_of_the_draft_model_has_no_drafts() -> None:
    served = engine(tiny("llama"))
    plain = generate(served, requests())
    set_draft_model(served, draft_model("llama", context=24))
    drafted = generate(served, requests(), random.Random(1))
    assert [collector.ids for collector in drafted] == [collector.ids for collector in plain]


def test_answers_go_on_when_the_draft_model_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    served, model = engine(tiny("llama")), draft_model("llama")
    plain = generate(served, requests())
    set_draft_model(served, model)
    forward, calls = model.runner.forward, []

    def fail_sometimes(batch: object) -> torch.Tensor:
        calls.append(batch)
        if len(calls) % 7 == 3:
            raise MemoryError
        return forward(batch)

    monkeypatch.setattr(model.runner, "forward", fail_sometimes)
    drafted = generate(served, requests(), random.Random(2))
    assert [collector.ids for collector in drafted] == [collector.ids for collector in plain]
    assert len(calls) > 14


def test_a_smaller_vocabulary_is_no_obstacle() -> None:
    served, model = engine(tiny("llama")), draft_model("llama")
    plain = generate(served, requests())
    model.sampler = Sampler(VOCAB + 8)
    set_draft_model(served, model)
    assert [collector.ids for collector in generate(served, requests())] == [
        collector.ids for collector in plain
    ]
