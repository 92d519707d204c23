"""Which runner is selected, and with how much KV memory."""

import logging
from dataclasses import replace

import pytest
import torch

from inference.errors import BadRequest, Unavailable
from inference.model.batch import Batch, Resize
from inference.model.contiguous import position_fixes
from inference.model.contiguous.runner import ContiguousRunner
from inference.model.runner_selection import benchmark
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules, RunnerSize
from inference.model.runner_selection.runner_trials import Candidate, RunnerTrials
from inference.model.runner_selection.select_runner import select_runner
from tests.tiny_models.families import (
    ATTENTION,
    CONTEXT,
    ENCODERS,
    FAMILIES,
    RECURRENT,
    UNCACHED,
    UNUSUAL,
    needs_fused,
    tiny,
)
from tests.walks.batch_walk import RunnerWalk, plain

PLENTY = 1 << 24
LIMITS = RunnerLimits(max_sequences=4, context=CONTEXT, kv_memory_bytes=PLENTY)


@pytest.mark.parametrize("name", FAMILIES | UNUSUAL)
def test_every_family_fits_the_contiguous_runner(name: str) -> None:
    selected = select_runner(tiny(name), LIMITS, RunnerRules(kinds=("contiguous",)))
    assert selected.runner_kind == "contiguous"
    assert selected.runner.capabilities.chunked_prefill == (
        name not in RECURRENT and name not in ("qwen3_next", "falcon_h1")
    )
    assert selected.error < 1e-4


@pytest.mark.parametrize("name", ATTENTION)
def test_families_whose_attention_comes_from_the_registry_fit_the_paged_runner(name: str) -> None:
    selected = select_runner(tiny(name), LIMITS, RunnerRules(timed=False))
    own = {"gpt_neo", "gptj", "codegen", "bloom", "falcon", "falcon+alibi", "mpt", "xglm"}
    assert selected.runner_kind == ("contiguous" if name in own else "paged")
    assert selected.error < 1e-4


def test_positions_behind_the_padding_token_fit_the_paged_runner() -> None:
    selected = select_runner(tiny("roberta"), LIMITS, RunnerRules(timed=False))
    assert selected.runner_kind == "paged" and selected.error < 1e-4


@pytest.mark.parametrize("name", ["llama4_text", "lfm2", "jamba", "t5", "diffllama"])
def test_models_with_chunked_attention_or_other_token_mixing_do_not_fit_the_paged_runner(name: str) -> None:
    selected = select_runner(tiny(name), LIMITS, RunnerRules(timed=False))
    assert selected.runner_kind == "contiguous"


@pytest.mark.parametrize(("ratio", "runner"), [(1.0, "paged"), (0.8, "contiguous")])
def test_the_faster_of_two_correct_runners_is_selected(
    ratio: float, runner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "step_s", lambda *args: 0.0)  # on a busy machine it may seem slow
    monkeypatch.setattr(benchmark, "speed_ratio", lambda *args: ratio)
    assert select_runner(tiny("gpt_neox"), LIMITS).runner_kind == runner


@pytest.mark.parametrize(("seconds", "kinds"), [(0.001, ["paged", "contiguous"]), (0.1, ["paged"])])
def test_no_other_runner_is_tried_if_the_weights_alone_set_the_speed(
    seconds: float, kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "step_s", lambda *args: seconds)
    timed_kinds: list[list[str]] = []
    monkeypatch.setattr(
        RunnerTrials,
        "fastest",
        lambda trials, candidates: take_first(timed_kinds, candidates),
    )
    select_runner(tiny("gpt_neox"), LIMITS)
    assert timed_kinds == [kinds]


def take_first(timed_kinds: list[list[str]], candidates: list[Candidate]) -> Candidate:
    timed_kinds.append([one.option.kind for one in candidates])
    return candidates[0]


def test_a_benchmark_times_both_runners() -> None:
    """A runner that takes twenty times as long loses to one that does not."""
    model = tiny("llama")

    class Slow(ContiguousRunner):
        def forward(self, batch: Batch) -> torch.Tensor:
            for _ in range(20):
                logits = super().forward(replace(batch, cache_ops=()))
            return logits

    def fast(size: RunnerSize) -> ContiguousRunner:
        return ContiguousRunner(model, chunked_prefill=True, **limits_of(size))

    def slow(size: RunnerSize) -> ContiguousRunner:
        runner = Slow(model, chunked_prefill=True, **limits_of(size))
        runner.memory.apply(Resize(benchmark.ROWS, size.context))
        return runner

    assert benchmark.speed_ratio(fast, slow, range(3, 50), CONTEXT) > 3
    assert benchmark.speed_ratio(slow, fast, range(3, 50), CONTEXT) < 0.33


def limits_of(size: RunnerSize) -> dict[str, int]:
    return {"max_sequences": size.max_sequences, "context": size.context, "kv_capacity": size.kv_capacity}


@pytest.mark.parametrize("name", UNCACHED)
def test_a_model_without_a_cache_gets_the_uncached_runner(name: str) -> None:
    selected = select_runner(tiny(name), LIMITS)
    assert selected.runner_kind == "uncached"


def test_a_model_whose_cache_changes_its_logits_is_refused() -> None:
    with pytest.raises(Unavailable, match="prophetnet computes different logits with a cache than without"):
        select_runner(tiny("prophetnet"), LIMITS)


def test_a_model_that_needs_more_than_text_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(*args: object, **kwargs: object) -> None:
        raise ValueError("give me\n  pixel_values")

    model = tiny("llama")
    monkeypatch.setattr(model.model, "forward", forward)
    with pytest.raises(Unavailable, match="compute from text alone: ValueError: give me pixel_values"):
        select_runner(model, LIMITS)


def test_a_decoder_without_a_start_token_is_refused_as_the_users_error() -> None:
    model = tiny("bart", decoder_start_token_id=None)
    model.generation_config.decoder_start_token_id = model.generation_config.bos_token_id = None
    with pytest.raises(BadRequest, match="MODEL_NAME has no decoder_start_token_id"):
        select_runner(model, LIMITS)


def test_a_model_that_infers_positions_in_its_own_way_gets_a_call_for_each_row() -> None:
    model = tiny("led")
    selected = select_runner(model, LIMITS)
    assert isinstance(selected.runner, ContiguousRunner) and not selected.runner.batched
    walk = RunnerWalk(model, selected.runner, seed=3)
    walk.go(8)
    assert walk.error < 1e-4


@pytest.mark.parametrize("name", ["gpt_neo", "t5", "bart"])
def test_a_wrong_runner_is_not_selected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its position fix, a model that infers positions is wrong in a shared call, and verification
    detects it.
    """
    monkeypatch.setattr(position_fixes, "POSITION_FIXES", ())
    selected = select_runner(tiny(name), LIMITS)
    assert isinstance(selected.runner, ContiguousRunner) and not selected.runner.batched


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_compared_with_half_precision(dtype: torch.dtype) -> None:
    selected = select_runner(tiny("mixtral").to(dtype), LIMITS)
    assert selected.runner_kind in ("paged", "contiguous") and selected.runner.capabilities.chunked_prefill


@pytest.mark.parametrize("name", ["llama", "gpt_neo", "t5", "jamba"])
def test_verification_leaves_the_model_unchanged(name: str) -> None:
    model = tiny(name)
    tokens, source = [5, 9, 13, 40, 41], [7, 8, 9] if name in ENCODERS else []
    before = plain(model, tokens, source)
    select_runner(model, LIMITS, RunnerRules(kinds=("paged", "contiguous", "uncached")))
    assert torch.equal(plain(model, tokens, source), before)


def test_the_capacity_follows_from_the_memory() -> None:
    model = tiny("llama")
    for kind, capacity in (("contiguous", 300), ("paged", 300 // 16 * 16)):
        selected = select_runner(
            model,
            RunnerLimits(max_sequences=8, context=CONTEXT, kv_memory_bytes=300 * 256),
            RunnerRules(kinds=(kind,)),
        )
        layers, keys_and_values, num_heads, width, float32 = 2, 2, 2, 8, 4
        assert selected.kv_cost.per_token == layers * keys_and_values * num_heads * width * float32
        assert selected.runner.kv_capacity == capacity
    assert (
        select_runner(
            model, RunnerLimits(max_sequences=2, context=CONTEXT, kv_memory_bytes=PLENTY)
        ).runner.kv_capacity
        == 2 * CONTEXT
    )


@pytest.mark.parametrize(
    ("family", "kind"),
    [("gemma2", "paged"), ("mistral", "paged"), pytest.param("gemma2", "fused", marks=needs_fused)],
)
def test_the_same_memory_holds_more_tokens_if_layers_have_a_window(family: str, kind: str) -> None:
    model = tiny(family)
    num_bytes = 500 * 256
    limits = RunnerLimits(max_sequences=16, context=CONTEXT, kv_memory_bytes=num_bytes, max_batch_tokens=16)
    selected = select_runner(model, limits, RunnerRules(kinds=(kind,)))
    runner, (group,) = selected.runner, selected.runner.window_groups
    assert runner.kv_capacity > 1.4 * 500
    assert group.window == model.config.sliding_window and 16 * group.num_pages < runner.kv_capacity / 2
    layers = runner.pool.layers.values()
    padding = sum(kv.keys[0].nbytes + kv.values[0].nbytes for kv in layers) * 2  # padding and null pages
    assert sum(kv.keys.nbytes + kv.values.nbytes for kv in layers) <= num_bytes + padding
    contiguous = select_runner(model, limits, RunnerRules(kinds=("contiguous",)))
    assert contiguous.runner.kv_capacity == 500 and not contiguous.runner.window_groups


def test_a_faster_runner_that_needs_more_memory_is_not_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "step_s", lambda *args: 0.0)
    monkeypatch.setattr(benchmark, "speed_ratio", lambda *args: 0.5)
    kinds = {
        num_bytes: select_runner(
            tiny("gemma2"),
            RunnerLimits(max_sequences=4, context=CONTEXT, kv_memory_bytes=num_bytes, max_batch_tokens=16),
            RunnerRules(kinds=("paged", "contiguous")),
        ).runner_kind
        for num_bytes in (CONTEXT * 256 - 1, CONTEXT * 256)
    }
    assert list(kinds.values()) == ["paged", "contiguous"]


def test_a_short_context_needs_no_pages_of_its_own_for_a_window() -> None:
    selected = select_runner(
        tiny("gemma2"),
        RunnerLimits(max_sequences=4, context=32, kv_memory_bytes=PLENTY),
        RunnerRules(kinds=("paged",)),
    )
    assert selected.runner.kv_capacity == 4 * 32 and not selected.runner.window_groups


@pytest.mark.parametrize(("limit", "capacity"), [(200, 200), (10**9, 8 * CONTEXT)])
def test_the_capacity_does_not_exceed_the_requested_limit(limit: int, capacity: int) -> None:
    for kind in ("contiguous", "paged"):
        selected = select_runner(
            tiny("llama"),
            RunnerLimits(
                max_sequences=8, context=CONTEXT, kv_memory_bytes=PLENTY, max_batch_total_tokens=limit
            ),
            RunnerRules(kinds=(kind,)),
        )
        assert (
            selected.runner.kv_capacity == capacity // selected.runner.page_size * selected.runner.page_size
            or kind == "contiguous"
        )
        assert selected.runner.kv_capacity <= capacity


def test_memory_for_less_than_one_row_is_refused() -> None:
    with pytest.raises(Unavailable, match="128 tokens"):
        select_runner(
            tiny("llama"), RunnerLimits(max_sequences=8, context=CONTEXT, kv_memory_bytes=100 * 256)
        )


def test_damaged_weights_are_refused() -> None:
    model = tiny("llama")
    model.model.norm.weight.data.fill_(float("nan"))
    with pytest.raises(Unavailable, match="NaN or infinite"):
        select_runner(model, LIMITS)


def test_the_selection_is_logged_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="inference.model"):
        select_runner(tiny("bloom"), LIMITS)
    *reasons, line = [record.getMessage() for record in caplog.records]
    assert reasons == [
        "bloom: fused runner rejected: a BloomModel has no layers",
        "bloom: paged runner rejected: accepts no position ids",
    ]
    assert line.startswith("bloom: contiguous, chunked prefill, error ")


def test_a_model_with_few_positions_fits_both_runners() -> None:
    model = tiny("gpt2", n_positions=64)
    for kind in ("contiguous", "paged"):
        assert (
            select_runner(
                model,
                RunnerLimits(max_sequences=2, context=64, kv_memory_bytes=PLENTY),
                RunnerRules(kinds=(kind,)),
            ).runner_kind
            == kind
        )


def test_every_attention_family_is_in_the_table() -> None:
    assert len(ATTENTION) + len(RECURRENT) + len(ENCODERS) == 30
