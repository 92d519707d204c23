"""Memory term by term: what each consists of, and which total decides."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from checks.memory import ModelSize
from checks.memory.overhead import DEFAULT_OVERHEAD
from checks.memory.plan import Plan
from checks.memory.terms import (
    GRAMMAR_BYTES_PER_ENTRY,
    HEAP_FACTOR,
    PARITY_TOKENS,
    TOKENIZER_BYTES_PER_ENTRY,
    DeviceTerms,
    compute_terms,
)
from hub.repository import RepoFile
from inference.model.kv_cost import KVCost

GB, MB = 10**9, 10**6
MEASURE = ModelSize(
    GB,
    "bfloat16",
    2 * GB,
    KVCost(1000),
    quantization_savings={"int8": GB},
    activation_bytes_per_token=50_000,
    largest_weight=200 * MB,
    vocab_size=100_000,
    stored_dtype="bfloat16",
    is_fused=True,
)
PARITY_BYTES = PARITY_TOKENS * 100_000 * 4


@pytest.fixture
def plan(planned: Callable[..., Plan]) -> Plan:
    return replace(planned(), model_size=MEASURE, max_sequences=8, max_batch_tokens=512)


def ram(plan: Plan, weights: int = 2 * GB, kv: int = 0, **measure: object) -> DeviceTerms:
    return compute_terms(plan, replace(MEASURE, **measure), "cpu", weights, kv)


def test_serving_is_everything_except_loading(plan: Plan) -> None:
    estimate = ram(plan, kv=3 * GB)
    in_16_bits = DEFAULT_OVERHEAD.ram + DEFAULT_OVERHEAD.workspaces
    assert estimate.baseline == in_16_bits + 100_000 * TOKENIZER_BYTES_PER_ENTRY
    assert estimate.grammars == 100_000 * GRAMMAR_BYTES_PER_ENTRY
    assert estimate.activations == 512 * 50_000 and estimate.logits == 8 * 100_000 * (2 + 8)
    when_ready = estimate.baseline + 2 * GB
    assert estimate.serving == when_ready + 3 * GB + estimate.grammars + estimate.step == estimate.required


def test_work_buffers_are_allocated_at_load_in_16_bits_and_by_the_first_step_in_float32(plan: Plan) -> None:
    in_16_bits, in_float32 = ram(plan), ram(plan, dtype="float32")
    assert in_16_bits.baseline - in_float32.baseline == DEFAULT_OVERHEAD.workspaces
    assert in_float32.activations - in_16_bits.activations == DEFAULT_OVERHEAD.workspaces


def test_loading_mapped_weights_needs_the_largest_one_twice(plan: Plan) -> None:
    estimate = ram(plan)
    assert estimate.loading == estimate.baseline + 2 * GB + 200 * MB + PARITY_BYTES == estimate.required


def test_prefaulted_memory_counts_in_addition_to_the_files(plan: Plan) -> None:
    estimate = ram(replace(plan, overhead=replace(DEFAULT_OVERHEAD, prefaulted=5 * GB)))
    assert estimate.loading == estimate.baseline + 2 * GB + 2 * GB + PARITY_BYTES
    assert estimate.required == estimate.loading - estimate.page_cache


def test_a_packed_sample_counts_in_addition_unless_weights_are_quantized(plan: Plan) -> None:
    estimate = ram(plan, pack_sample=300 * MB)
    assert estimate.loading == estimate.baseline + 2 * GB + 300 * MB + PARITY_BYTES == estimate.required
    prefaulted_plan = replace(plan, overhead=replace(DEFAULT_OVERHEAD, prefaulted=GB))
    assert ram(prefaulted_plan, pack_sample=300 * MB).loading == estimate.loading + GB
    less = replace(plan, quantize="int8")
    assert ram(less, GB, pack_sample=300 * MB).required == estimate.baseline + GB + 100 * MB + PARITY_BYTES


def test_files_of_quantized_weights_need_not_stay_in_memory(plan: Plan) -> None:
    estimate = ram(replace(plan, quantize="int8"), weights=GB)
    assert estimate.loading == estimate.baseline + GB + GB + 100 * MB + PARITY_BYTES
    assert estimate.required == estimate.loading - GB


def test_converted_weights_count_in_addition_to_their_files(plan: Plan) -> None:
    files = (RepoFile("model.safetensors", 4 * GB, is_local=True),)
    estimate = ram(replace(plan, repository=replace(plan.repository, files=files)), load_copy_bytes=2 * GB)
    assert estimate.required == estimate.baseline + 2 * GB + 200 * MB + PARITY_BYTES
    assert estimate.loading == estimate.baseline + 2 * GB + 4 * GB


def test_some_weights_that_are_stacked_are_copied(plan: Plan) -> None:
    estimate = ram(plan, load_copy_bytes=int(1.5 * GB))
    assert estimate.required == estimate.baseline + 2 * GB + 200 * MB + PARITY_BYTES
    assert estimate.loading == estimate.baseline + 3 * GB


def test_copied_weights_are_in_memory_before_they_are_quantized(plan: Plan) -> None:
    estimate = ram(replace(plan, quantize="int8"), weights=GB, load_copy_bytes=int(1.5 * GB))
    assert estimate.required == estimate.baseline + int(1.5 * GB) + 100 * MB + PARITY_BYTES


def test_a_torch_step_fragments_the_heap(plan: Plan) -> None:
    native, torchs = ram(plan), ram(plan, is_fused=False)
    assert torchs.activations == int(native.activations * HEAP_FACTOR) and torchs.logits == native.logits
    gpu = compute_terms(plan, replace(MEASURE, is_fused=False), "cuda", 2 * GB, 0)
    assert gpu.activations == native.activations


def test_a_gpu_needs_cudas_overhead_and_no_loading_memory(plan: Plan) -> None:
    estimate = compute_terms(plan, MEASURE, "cuda", 2 * GB, GB)
    assert estimate.baseline == DEFAULT_OVERHEAD.cuda and estimate.weights == 2 * GB
    assert estimate.required == estimate.serving
