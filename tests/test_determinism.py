"""Answers are the same to the last bit, whatever runs beside them and whatever ran before.

In half precision with DETERMINISTIC, including logprobs; in float32 always, for the ids.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import BatchInvariantSampler, Sampler
from inference.engine.speculation.ngram_proposer import NgramProposer
from inference.engine.step_output import PromptLogprob, StepOutput
from inference.model.quantization.schemes import Quantization
from inference.model.runner_selection.requirements import RUNNERS, RunnerLimits, RunnerRules
from inference.model.runner_selection.runner_options import BATCH_INVARIANT
from inference.model.runner_selection.select_runner import select_runner
from inference.model.weights import prepare_weights
from inference.native.build import NativeUnavailable
from inference.native.library import library
from inference.sampling import Sampling
from inference.types import GenerationRequest
from tests.engine.engine_probe import EngineProbe
from tests.engine.generation_requests import make_request
from tests.native.native_setting import native_setting
from tests.tiny_models.families import DEVICE, VOCAB, needs_fused, tiny

# Families whose last bits depend on neighbouring rows without DETERMINISTIC; those of most tiny models do
# not.
FIVE = ("llama", "mixtral", "gpt2", "jamba", "t5")
CHUNK = 16
NEW = 12
LIMITS = RunnerLimits(max_sequences=4, context=80, kv_memory_bytes=1 << 24, max_batch_total_tokens=200)
SAMPLINGS = (
    Sampling(greedy=True),
    Sampling(temperature=0.7, top_p=0.9),
    Sampling(greedy=True, repetition_penalty=1.1),
    Sampling(temperature=1.3, typical_p=0.8),
)


@dataclass
class ComparedAnswer:
    """An OutputSink that records its outputs, except for times and reused tokens."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    prompt: list[PromptLogprob] = field(default_factory=list)
    num_cached_tokens: int = 0

    def put(self, output: StepOutput) -> None:
        assert output.error is None, output.error
        self.ids += output.token_ids
        self.logprobs += output.logprobs
        self.prompt += output.prompt_logprobs
        self.num_cached_tokens += output.num_cached_tokens or 0

    @property
    def compared(self) -> tuple[object, ...]:
        return self.ids, self.logprobs, self.prompt


def make_requests() -> list[GenerationRequest]:
    """Prompts of many lengths, half of them with a common prefix; one requests its prompt's logprobs."""
    chance = random.Random(5)
    common = chance.choices(range(3, VOCAB), k=40)
    requests = []
    for number, length in enumerate((3, 50, 17, 16, 33, 5, 24, 41)):
        prompt = chance.choices(range(3, VOCAB), k=length)
        if number % 2:
            prompt = (common + prompt)[: 40 + length // 4]
        scored = 0 if number == 5 else None
        sampling = SAMPLINGS[number // 2 % len(SAMPLINGS)]
        num_logprobs = None if number % 4 == 3 else 1  # tokens without logprobs are sampled together
        requests.append(
            make_request(
                tuple(prompt), NEW, sampling, seed=number, logprobs=num_logprobs, prompt_logprobs=scored
            )
        )
    return requests


def engine(family: str, dtype: torch.dtype, deterministic: bool) -> Engine:
    """Four rows, and too little KV memory for three long answers; not a batch-invariant runner."""
    model = tiny(family).to(dtype)
    kinds = [kind for kind in RUNNERS if kind not in BATCH_INVARIANT]
    selected = select_runner(model, LIMITS, RunnerRules(deterministic=deterministic, kinds=kinds))
    sampler = (BatchInvariantSampler if deterministic else Sampler)(VOCAB)
    chunk = CHUNK if deterministic else 0
    return Engine(
        selected.runner,
        sampler,
        EngineOptions(max_batch_tokens=24, max_queued_tokens=10_000, prefill_chunk_size=chunk),
    )


@torch.inference_mode()
def run_alone(served: Engine) -> list[ComparedAnswer]:
    """Runs the requests one after the other, without reused tokens."""
    collected = []
    for each in make_requests():
        EngineProbe(served).reset_cache()
        collected.append(ComparedAnswer())
        served.submit([each], [collected[-1]])
        while served.step():
            pass
    return collected


@torch.inference_mode()
def run_together(served: Engine, chance: random.Random) -> list[ComparedAnswer]:
    """Runs the requests together; rows join, are preempted and have cancelled neighbours at random."""
    collected, probe = [], EngineProbe(served)
    for each in make_requests():
        collected.append(ComparedAnswer())
        served.submit([each], [collected[-1]])
        cancelled = served.submit(
            [make_request(each.prompt[::-1] if chance.random() < 0.5 else each.prompt, 30)],
            [ComparedAnswer()],
        )
        while served.step() and chance.random() < 0.8:
            if probe.running and chance.random() < 0.1:
                probe.preempt(chance.choice(probe.running))
        served.abort(cancelled)
    while served.step():
        probe.check()
    return collected


@pytest.mark.parametrize("family", FIVE)
def test_with_deterministic_no_bfloat16_answer_depends_on_its_neighbours(family: str) -> None:
    served = engine(family, torch.bfloat16, deterministic=True)
    by_itself, together = run_alone(served), run_together(served, random.Random(7))
    assert [each.compared for each in together] == [each.compared for each in by_itself]
    assert served.stats().preemptions > 3
    if family not in ("jamba", "t5"):
        assert (
            sum(each.num_cached_tokens for each in together)
            >= 2 * CHUNK
            > 0
            == by_itself[0].num_cached_tokens
        )


@pytest.mark.skipif(DEVICE != "cpu", reason="a GPU's products may round alike in every batch")
def test_without_deterministic_the_same_walk_shows_a_difference() -> None:
    served = engine("mixtral", torch.bfloat16, deterministic=False)
    by_itself, together = run_alone(served), run_together(served, random.Random(7))
    assert [each.compared for each in together] != [each.compared for each in by_itself]


@pytest.fixture(params=("plain", "avx2", "avx512", "emulated", "amx"))
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """A processor level that native code is compiled for; skipped if this machine cannot run it."""
    with native_setting(request.param):
        try:
            library()
        except NativeUnavailable as reason:
            pytest.skip(str(reason))
        yield request.param


@needs_fused
@pytest.mark.parametrize("quantize", ("none", "int8"))
@pytest.mark.parametrize("family", ("llama", "gemma2", "qwen3"))
def test_no_answer_of_the_fused_runner_depends_on_its_neighbours(
    level: str, family: str, quantize: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts are computed in chunks of any size, several rows in a step, with drafts."""
    # On a processor without bfloat16 the int8 error of so tiny a model is near the limit of 0.1 standard
    # deviations at which loading fails; tests/model/quantization checks the precision.
    monkeypatch.setattr(prepare_weights, "QUANTIZED_TOLERANCE", (0.2, 1.0))
    model = tiny(family).bfloat16()
    selected = select_runner(
        model, LIMITS, RunnerRules(deterministic=True, kinds=BATCH_INVARIANT), Quantization(quantize)
    )
    served = Engine(
        selected.runner,
        BatchInvariantSampler(VOCAB),
        EngineOptions(max_batch_tokens=24, max_queued_tokens=10_000),
    )
    by_itself, together = run_alone(served), run_together(served, random.Random(7))
    assert [each.compared for each in together] == [each.compared for each in by_itself]
    assert served.stats().preemptions > 3
    assert sum(each.num_cached_tokens for each in together) >= 2 * CHUNK > 0 == by_itself[0].num_cached_tokens
    probe = EngineProbe(served)
    probe.set_proposer(NgramProposer(probe.kv_cache, 8))
    drafted = run_together(served, random.Random(7))
    assert [each.compared for each in drafted] == [each.compared for each in by_itself]


@pytest.mark.parametrize("family", FIVE)
def test_in_float32_the_tokens_are_the_same_with_and_without_drafts(family: str) -> None:
    served = engine(family, torch.float32, deterministic=False)
    by_itself, together = run_alone(served), run_together(served, random.Random(7))
    assert [each.ids for each in together] == [each.ids for each in by_itself]
    probe = EngineProbe(served)
    if probe.runner.capabilities.chunked_prefill and not probe.runner.capabilities.encoder_decoder:
        probe.set_proposer(NgramProposer(probe.kv_cache, 8))
        drafted = run_together(served, random.Random(7))
        assert [each.ids for each in drafted] == [each.ids for each in by_itself]
