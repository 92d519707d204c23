"""The GPU's report, where there is none: its parts run through, its arithmetic is right."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.bench.models import build, parameters
from scripts.bench.terms import Terms
from scripts.gpu import correct, fits, overlap, profile, roofline
from scripts.gpu.part import Asked, Wrong
from scripts.memory.cases import Case
from scripts.memory.measured import Measured, Pair

ASKED = Asked(Terms(model="tiny", dtype="float32", device="cpu", threads=1), rounds=1, sample=True)


def kernel(start: int, end: int) -> SimpleNamespace:
    return SimpleNamespace(time_range=SimpleNamespace(start=start, end=end))


def test_kernels_that_run_side_by_side_count_once() -> None:
    assert profile.busy_us([kernel(10, 30), kernel(0, 5), kernel(20, 25), kernel(28, 40)]) == 35


def test_a_token_reads_every_weight_but_those_of_other_tokens_embeddings() -> None:
    model = build("tiny", "float32", "cpu")
    assert roofline.weights_read(model) == 4 * (parameters("tiny") - 512 * 32)
    tied = build("77m", "bfloat16", "meta")
    assert roofline.weights_read(tied) == 2 * parameters("77m")


@pytest.mark.slow
def test_memory_that_was_predicted_wrongly_is_told_behind_its_lines() -> None:
    def measure(case: Case, model: Path, scratch: Path) -> Measured:
        assert case.settings["device"] == "cpu" and (model / "model.safetensors").exists()
        return Measured(Pair(104, 100), Pair(98, 100), {})

    told = []
    with pytest.raises(Wrong, match=r"20\.0%"):
        for line in fits.lines(ASKED, lambda *asked: replace(measure(*asked), serving=Pair(120, 100))):
            told.append(line)
    assert [line[1:] for line in told][1] == ("100 bytes", "predicted 120 bytes, +20.0%")
    assert len(list(fits.lines(ASKED, measure))) == 2


@pytest.mark.slow
def test_the_share_of_the_roofline_is_told_where_there_is_no_gpu() -> None:
    told = {line[0]: line[1] for line in roofline.lines(ASKED)}
    assert 0 < float(told["share of roofline"].removesuffix(" %")) < 100


@pytest.mark.slow
def test_steps_begun_early_are_timed_beside_others_where_there_is_no_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(overlap, "ROWS", (2,))
    monkeypatch.setattr(overlap, "TIMED", 4)
    told = {line[0]: line[1] for line in overlap.lines(ASKED)}
    assert told.keys() <= {
        *("step, 2 rows, one after the other", "step, 2 rows, begun early", "2 rows, ratio"),
        "steps begun early",
    }


def test_the_suite_is_there() -> None:
    assert all((correct.ROOT / path).exists() for path in correct.SUITE)
