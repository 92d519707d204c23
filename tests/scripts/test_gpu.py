"""The GPU's report, where there is none: its parts run through, its arithmetic is right."""

from types import SimpleNamespace

import pytest

from scripts.bench.models import build, parameters
from scripts.bench.terms import Terms
from scripts.gpu import correct, overlap, profile, roofline
from scripts.gpu.part import Asked

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
