"""Which seat is chosen, and with how much memory."""

import logging
from dataclasses import replace

import pytest
import torch

from inference.errors import Unavailable
from inference.model import fit, race
from inference.model.batch import Batch, Shape
from inference.model.fit import choose
from inference.model.slots import quirks
from inference.model.slots.runner import SlotRunner
from tests.families import ATTENTION, CONTEXT, ENCODERS, FAMILIES, RECURRENT, UNCACHED, UNUSUAL, tiny
from tests.walk import Walk, plain

PLENTY = 1 << 24


@pytest.mark.parametrize("name", FAMILIES | UNUSUAL)
def test_every_family_fits_the_slots(name: str) -> None:
    fitted = choose(tiny(name), max_rows=4, context=CONTEXT, kv_bytes=PLENTY, kinds=("slots",))
    assert fitted.seat == "slots"
    assert fitted.resumes == (name not in RECURRENT and name not in ("qwen3_next", "falcon_h1"))
    assert fitted.error < 1e-4


@pytest.mark.parametrize("name", ATTENTION)
def test_every_family_whose_attention_is_the_registrys_is_packed(name: str) -> None:
    fitted = choose(tiny(name), max_rows=4, context=CONTEXT, kv_bytes=PLENTY, timed=False)
    own = {"gpt_neo", "gptj", "codegen", "bloom", "falcon", "falcon+alibi", "mpt", "xglm"}
    assert fitted.seat == ("slots" if name in own else "packed")
    assert fitted.error < 1e-4


@pytest.mark.parametrize("name", ["llama4_text", "lfm2", "jamba", "t5"])
def test_tokens_that_meet_elsewhere_or_see_chunks_are_not_packed(name: str) -> None:
    fitted = choose(tiny(name), max_rows=4, context=CONTEXT, kv_bytes=PLENTY, timed=False)
    assert fitted.seat == "slots"


@pytest.mark.parametrize(("ratio", "seat"), [(1.0, "packed"), (0.8, "slots")])
def test_of_two_right_seats_the_faster_is_chosen(
    ratio: float, seat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race, "ratio", lambda *asked: ratio)
    assert choose(tiny("gpt_neox"), max_rows=4, context=CONTEXT, kv_bytes=PLENTY).seat == seat


@pytest.mark.parametrize(("seconds", "tried"), [(0.001, ["packed", "slots"]), (0.1, ["packed"])])
def test_behind_a_seat_that_the_weights_alone_slow_down_no_other_is_tried(
    seconds: float, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race, "step_s", lambda *asked: seconds)
    raced: list[list[str]] = []
    monkeypatch.setattr(fit, "fastest", lambda model, trial, found, context: note(raced, found))
    choose(tiny("gpt_neox"), max_rows=4, context=CONTEXT, kv_bytes=PLENTY)
    assert raced == [tried]


def note(raced: list[list[str]], found: list[fit.Found]) -> fit.Found:
    raced.append([one.seat.kind for one in found])
    return found[0]


def test_a_race_is_run_on_both_seats() -> None:
    """A seat that takes a hundred times as long loses to one that does not."""
    model = tiny("llama")

    class Slow(SlotRunner):
        def forward(self, batch: Batch) -> torch.Tensor:
            for _ in range(100):
                logits = super().forward(replace(batch, moves=()))
            return logits

    def fast(**asked: int) -> SlotRunner:
        return SlotRunner(model, resumes=True, **asked)

    def slow(**asked: int) -> SlotRunner:
        made = Slow(model, resumes=True, **asked)
        made.memory.do(Shape(race.ROWS, asked["context"]))
        return made

    assert race.ratio(fast, slow, range(3, 50), CONTEXT) > 5
    assert race.ratio(slow, fast, range(3, 50), CONTEXT) < 0.2


@pytest.mark.parametrize("name", UNCACHED)
def test_a_model_without_a_cache_computes_alone(name: str) -> None:
    fitted = choose(tiny(name), max_rows=4, context=CONTEXT, kv_bytes=PLENTY)
    assert fitted.seat == "solo"


def test_a_model_that_its_own_cache_changes_is_refused() -> None:
    with pytest.raises(Unavailable, match="prophetnet computes something else with a cache than without"):
        choose(tiny("prophetnet"), max_rows=4, context=CONTEXT, kv_bytes=PLENTY)


def test_a_model_that_wants_more_than_text_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(*args: object, **kwargs: object) -> None:
        raise ValueError("give me\n  pixel_values")

    model = tiny("llama")
    monkeypatch.setattr(model.model, "forward", forward)
    with pytest.raises(Unavailable, match="compute from text alone: ValueError: give me pixel_values"):
        choose(model, max_rows=4, context=CONTEXT, kv_bytes=PLENTY)


def test_a_model_that_guesses_positions_otherwise_has_a_call_for_each_row() -> None:
    model = tiny("led")
    fitted = choose(model, max_rows=4, context=CONTEXT, kv_bytes=PLENTY)
    assert isinstance(fitted.runner, SlotRunner) and not fitted.runner.together
    walk = Walk(model, fitted.runner, seed=3)
    walk.go(8)
    assert walk.error < 1e-4


@pytest.mark.parametrize("name", ["gpt_neo", "t5", "bart"])
def test_a_wrong_seat_is_not_chosen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its quirk, a model that guesses positions is wrong in a shared call, and the proof sees it."""
    monkeypatch.setattr(quirks, "QUIRKS", ())
    fitted = choose(tiny(name), max_rows=4, context=CONTEXT, kv_bytes=PLENTY)
    assert isinstance(fitted.runner, SlotRunner) and not fitted.runner.together


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_compared_with_half_precision(dtype: torch.dtype) -> None:
    fitted = choose(tiny("mixtral").to(dtype), max_rows=4, context=CONTEXT, kv_bytes=PLENTY)
    assert fitted.seat in ("packed", "slots") and fitted.resumes


@pytest.mark.parametrize("name", ["llama", "gpt_neo", "t5", "jamba"])
def test_the_proof_leaves_the_model_as_it_was(name: str) -> None:
    model = tiny(name)
    tokens, source = [5, 9, 13, 40, 41], [7, 8, 9] if name in ENCODERS else []
    before = plain(model, tokens, source)
    choose(model, max_rows=4, context=CONTEXT, kv_bytes=PLENTY, kinds=("packed", "slots", "solo"))
    assert torch.equal(plain(model, tokens, source), before)


def test_the_area_is_what_the_memory_holds() -> None:
    model = tiny("llama")
    for kind, area in (("slots", 300), ("packed", 300 // 16 * 16)):
        fitted = choose(model, max_rows=8, context=CONTEXT, kv_bytes=300 * 256, kinds=(kind,))
        assert fitted.bytes_per_token == 2 * 2 * 2 * 8 * 4  # layers, keys and values, heads, width, float32
        assert fitted.runner.area == area
    assert choose(model, max_rows=2, context=CONTEXT, kv_bytes=PLENTY).runner.area == 2 * CONTEXT


@pytest.mark.parametrize(("asked", "area"), [(200, 200), (10**9, 8 * CONTEXT)])
def test_the_area_is_no_more_than_asked_for(asked: int, area: int) -> None:
    for kind in ("slots", "packed"):
        fitted = choose(
            tiny("llama"), max_rows=8, context=CONTEXT, kv_bytes=PLENTY, max_area=asked, kinds=(kind,)
        )
        assert fitted.runner.area == area // fitted.runner.step * fitted.runner.step or kind == "slots"
        assert fitted.runner.area <= area


def test_memory_for_less_than_one_row_is_refused() -> None:
    with pytest.raises(Unavailable, match="128 tokens"):
        choose(tiny("llama"), max_rows=8, context=CONTEXT, kv_bytes=100 * 256)


def test_damaged_weights_are_refused() -> None:
    model = tiny("llama")
    model.model.norm.weight.data.fill_(float("nan"))
    with pytest.raises(Unavailable, match="not numbers"):
        choose(model, max_rows=4, context=CONTEXT, kv_bytes=PLENTY)


def test_the_verdict_is_told_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="inference.model.fit"):
        choose(tiny("bloom"), max_rows=4, context=CONTEXT, kv_bytes=PLENTY)
    *reasons, line = [record.getMessage() for record in caplog.records]
    assert reasons == [
        "bloom: not fused: a BloomModel has no layers",
        "bloom: not packed: takes no positions",
    ]
    assert line.startswith("bloom: slots, resumes, error ")


def test_a_model_of_few_positions_fits() -> None:
    model = tiny("gpt2", n_positions=64)
    for kind in ("slots", "packed"):
        assert choose(model, max_rows=2, context=64, kv_bytes=PLENTY, kinds=(kind,)).seat == kind


def test_every_attention_family_is_in_the_table() -> None:
    assert len(ATTENTION) + len(RECURRENT) + len(ENCODERS) == 30
