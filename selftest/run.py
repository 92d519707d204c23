"""Runs the selftest on a loaded engine: every scenario, a full batch, the speed; one finding for each.

Knows the engine and the other files of this folder; prints nothing.
"""

import time
from dataclasses import dataclass
from typing import Any

import torch

from inference.engine.engine import Engine
from inference.factory import LoadedEngine
from inference.finding import Finding
from inference.types import GenerationRequest
from selftest.compare import Comparison, Divergence, compare
from selftest.full_batch import measure_speed, run_full_batch
from selftest.scenarios import CollectedAnswer, make_prompts, make_request, make_scenarios, run_alone

MAX_SECONDS = 40.0  # approximate duration of the whole selftest
# Tokens of the common prefix, and of an answer: at most the first line, for slow models down to the second.
LONG_PREFIX, NUM_NEW_TOKENS = 320, 32
SHORT_PREFIX, FEW_NEW_TOKENS = 32, 4
# The total work, to estimate the duration: computed prompts of prefix length, and steps per answer token.
NUM_PROMPTS_READ, STEPS_PER_NEW_TOKEN = 24, 60
# Tolerated logprob changes by dtype: larger than all changes measured from rounding, smaller than a fault's.
MAX_DRIFT = {"float32": 0.01, "float16": 0.1, "bfloat16": 0.5}
TIE_FIX = "rounding decided a tie, which is no fault: DETERMINISTIC=true prevents it, but is slower"
SMALLER_FIX = "lower MAX_SEQUENCES or MAX_BATCH_TOKENS"
DRIFT_FIX = (
    "this model amplifies rounding, or an answer depends on the rest of its batch: --selftest "
    "--dtype=float32 shows which; DETERMINISTIC=true makes answers independent of their batch"
)
FAULT_FIX = "an answer depends on the rest of its batch: do not serve this model so, report this table"


@dataclass(frozen=True, slots=True)
class TokenTimes:
    """Seconds for a prompt token, and for a decoding step of one row."""

    prompt_token_s: float
    step_s: float


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Allowed differences.

    max_drift    of a logprob
    allows_ties  rounding may change the choice between tied tokens, as it does in half precision
    """

    max_drift: float
    allows_ties: bool

    @property
    def fix(self) -> str:
        """The advice for a larger difference."""
        return DRIFT_FIX if self.allows_ties else FAULT_FIX


@torch.inference_mode()
def selftest(loaded_engine: LoadedEngine) -> list[Finding]:
    """Run the selftest. A finding is not ok if answers differ from those computed alone beyond the tolerance.

    In half precision, rounding may decide ties. A deterministic engine must reproduce every bit.
    """
    engine, tokenizer = loaded_engine.engine, loaded_engine.loaded_model.tokenizer
    times = measure_times(engine, tokenizer)
    requests = make_requests(engine, tokenizer, times)
    tolerance = tolerance_of(loaded_engine)
    expected = run_alone(engine, requests)
    findings = [describe_runner(loaded_engine), describe_requests(requests)]
    for name, scenario in make_scenarios(engine, expected).items():
        results = scenario(engine, requests)
        findings.append(judge_results(name, compare(expected, results), tolerance, tokenizer, results))
    return [
        *findings,
        *describe_quantization_loss(loaded_engine),
        check_full_batch(engine, requests, times),
        describe_speed(engine, requests),
    ]


def measure_times(engine: Engine, tokenizer: Any) -> TokenTimes:
    """The engine's speed on a first short request, to scale the others."""
    max_length = engine.core.kv_cache_manager.context // 2
    first = make_request(make_prompts(tokenizer, SHORT_PREFIX, max_length)[0], FEW_NEW_TOKENS)
    seconds = []
    for num_new_tokens in (1, 1, FEW_NEW_TOKENS):  # the first run is slower and ignored
        start = time.perf_counter()
        run_alone(engine, [make_request(first.prompt_token_ids, num_new_tokens)])
        seconds.append(time.perf_counter() - start)
    return TokenTimes(
        seconds[1] / len(first.prompt_token_ids), max(seconds[2] - seconds[1], 1e-4) / (FEW_NEW_TOKENS - 1)
    )


def make_requests(engine: Engine, tokenizer: Any, times: TokenTimes) -> list[GenerationRequest]:
    """The requests, scaled so that the selftest takes about MAX_SECONDS."""
    max_length = engine.core.kv_cache_manager.context // 2
    prefix_length = clamp(
        SHORT_PREFIX, MAX_SECONDS / 2 / NUM_PROMPTS_READ / times.prompt_token_s, LONG_PREFIX
    )
    num_new_tokens = clamp(
        FEW_NEW_TOKENS, MAX_SECONDS / 2 / STEPS_PER_NEW_TOKEN / times.step_s, min(NUM_NEW_TOKENS, max_length)
    )
    return [
        make_request(prompt, num_new_tokens) for prompt in make_prompts(tokenizer, prefix_length, max_length)
    ]


def clamp(least: int, value: float, most: int) -> int:
    return max(least, min(int(value), most))


def tolerance_of(loaded_engine: LoadedEngine) -> Tolerance:
    if loaded_engine.engine_settings.deterministic:
        return Tolerance(max_drift=0.0, allows_ties=False)
    # Quantized products round activations to 8 bits.
    is_quantized = loaded_engine.selected_runner.quant_error is not None
    dtype = "bfloat16" if is_quantized else loaded_engine.loaded_model.dtype
    return Tolerance(MAX_DRIFT.get(dtype, max(MAX_DRIFT.values())), allows_ties=dtype != "float32")


def describe_runner(loaded_engine: LoadedEngine) -> Finding:
    """The runner, and its logit error, which passed the check when the model was loaded."""
    selected_runner, loaded = loaded_engine.selected_runner, loaded_engine.loaded_model
    have = f"{selected_runner.name}, error {selected_runner.error:.0e} sd, {loaded.dtype} on {loaded.device}"
    return Finding("runner", "logits of the model's own code", have, ok=True)


def describe_requests(requests: list[GenerationRequest]) -> Finding:
    """The requests. Their answers computed alone are the reference."""
    longest = max(len(request.prompt) for request in requests)
    have = f"{len(requests)} prompts of up to {longest} tokens, {requests[0].max_tokens} tokens each"
    return Finding("alone", "answers to compare with", have, ok=True)


def describe_quantization_loss(loaded_engine: LoadedEngine) -> list[Finding]:
    """The logit error of quantization, if any. The user judges it: it is always ok."""
    loss = loaded_engine.selected_runner.quant_error
    return [] if loss is None else [Finding("quantize", "logits of the files' weights", str(loss), ok=True)]


def judge_results(
    name: str, comparison: Comparison, tolerance: Tolerance, tokenizer: Any, results: list[CollectedAnswer]
) -> Finding:
    need = "same as alone" if tolerance.max_drift else "same as alone, to the last bit"
    if comparison.error:
        return Finding(name, need, comparison.error, ok=False, fix=FAULT_FIX)
    is_within_tolerance = comparison.max_drift <= tolerance.max_drift
    drift_text = f"logprobs within {comparison.max_drift:.0e}" if comparison.max_drift else "to the last bit"
    drift_text += "" if is_within_tolerance else f", the largest at {describe_position(*comparison.worst)}"
    num_cached_tokens = sum(result.num_cached_tokens for result in results)
    have = f"same, {drift_text}" + (
        f", {num_cached_tokens} prompt tokens reused" if num_cached_tokens else ""
    )
    if not comparison.divergences:
        return Finding(
            name, need, have, ok=is_within_tolerance, fix="" if is_within_tolerance else tolerance.fix
        )
    is_tie = is_within_tolerance and tolerance.allows_ties
    divergence_text = ("tie: " if is_tie else "") + describe_divergence(comparison.divergences[0], tokenizer)
    have = f"{divergence_text}; {len(comparison.divergences)} of {len(results)} answers, {drift_text}"
    return Finding(name, need, have, ok=is_tie, fix=TIE_FIX if is_tie else tolerance.fix)


def describe_divergence(divergence: Divergence, tokenizer: Any) -> str:
    right, other = (
        f"{id} {tokenizer.decode([id])!r}" for id in (divergence.expected_id, divergence.actual_id)
    )
    gap = (
        "a gap of many logits"
        if divergence.logit_gap is None
        else f"a gap of {divergence.logit_gap:.2g} logits"
    )
    return f"{describe_position(divergence.prompt_index, divergence.position)}: {right} became {other}, {gap}"


def describe_position(prompt_index: int, position: int) -> str:
    return f"prompt {prompt_index + 1}, token {position + 1}"


def check_full_batch(engine: Engine, requests: list[GenerationRequest], times: TokenTimes) -> Finding:
    """Run a full batch, with fewer tokens than the token budget if that would take too long."""
    num_tokens = clamp(1, MAX_SECONDS / 2 / times.prompt_token_s, engine.core.scheduler.limits.token_budget)
    full_batch = run_full_batch(
        engine, max((request.prompt_token_ids for request in requests), key=len), num_tokens
    )
    need = f"{engine.core.kv_cache_manager.max_sequences} answers at once, {num_tokens} tokens a step"
    if full_batch.error:
        return Finding("full batch", need, full_batch.error, ok=False, fix=SMALLER_FIX)
    return Finding(
        "full batch", need, f"{full_batch.num_answers} at once, {full_batch.num_tokens} a step", ok=True
    )


def describe_speed(engine: Engine, requests: list[GenerationRequest]) -> Finding:
    measured_speed = measure_speed(engine, requests, requests[0].max_tokens or 0)
    concurrent_text = f"{measured_speed.num_concurrent} answers {measured_speed.concurrent:.0f}"
    have = f"prompt {measured_speed.prompt:.0f}, one answer {measured_speed.single:.0f}, {concurrent_text}"
    return Finding("speed", "tokens per second", have, ok=True)
