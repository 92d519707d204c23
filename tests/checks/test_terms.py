"""Memory term by term: what each is made of, and which of them is the most."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from checks.machine.overhead import FIRST
from checks.measure import Measure
from checks.needs.terms import HOLES, NAMED, TRIED, Terms, terms
from checks.plan import Plan
from checks.source.file import File

GB, MB = 10**9, 10**6
MEASURE = Measure(
    GB,
    "bfloat16",
    2 * GB,
    1000,
    0,
    saves={"int8": GB},
    work=50_000,
    largest=200 * MB,
    vocab=100_000,
    stored="bfloat16",
    native=True,
)
JUDGING = TRIED * 100_000 * 4


@pytest.fixture
def plan(planned: Callable[..., Plan]) -> Plan:
    return replace(planned(), measure=MEASURE, rows=8, batch=512)


def ram(plan: Plan, weights: int = 2 * GB, kv: int = 0, **measure: object) -> Terms:
    return terms(plan, replace(MEASURE, **measure), "cpu", weights, kv)


def test_serving_is_all_but_what_loading_took(plan: Plan) -> None:
    found = ram(plan, kv=3 * GB)
    assert found.program == FIRST.ram + 100_000 * NAMED
    assert found.activations == 512 * 50_000 and found.logits == 8 * 100_000 * (2 + 8)
    assert found.serving == found.program + 2 * GB + 3 * GB + found.step == found.most


def test_weights_in_their_files_are_there_twice_for_one_of_them(plan: Plan) -> None:
    found = ram(plan)
    assert found.loading == found.program + 2 * GB + 200 * MB + JUDGING == found.most


def test_memory_made_ready_stands_beside_the_files(plan: Plan) -> None:
    found = ram(replace(plan, overhead=replace(FIRST, ahead=5 * GB)))
    assert found.loading == found.program + 2 * GB + 2 * GB + JUDGING
    assert found.most == found.loading - found.mapped


def test_a_sample_is_packed_beside_it_where_nothing_is_quantised(plan: Plan) -> None:
    found = ram(plan, sample=300 * MB)
    assert found.loading == found.program + 2 * GB + 300 * MB + JUDGING == found.most
    ahead = replace(plan, overhead=replace(FIRST, ahead=GB))
    assert ram(ahead, sample=300 * MB).loading == found.loading + GB
    less = replace(plan, quantise="int8")
    assert ram(less, GB, sample=300 * MB).most == found.program + GB + 100 * MB + JUDGING


def test_files_that_are_quantised_need_not_be_in_memory(plan: Plan) -> None:
    found = ram(replace(plan, quantise="int8"), weights=GB)
    assert found.loading == found.program + GB + GB + 100 * MB + JUDGING
    assert found.most == found.loading - GB


def test_files_are_in_memory_beside_what_is_converted_from_them(plan: Plan) -> None:
    files = (File("model.safetensors", 4 * GB, here=True),)
    found = ram(replace(plan, repository=replace(plan.repository, files=files)), copied=2 * GB)
    assert found.most == found.program + 2 * GB + 200 * MB + JUDGING
    assert found.loading == found.program + 2 * GB + 4 * GB


def test_of_weights_that_are_put_together_some_are_copied(plan: Plan) -> None:
    found = ram(plan, copied=int(1.5 * GB))
    assert found.most == found.program + 2 * GB + 200 * MB + JUDGING
    assert found.loading == found.program + 3 * GB


def test_what_is_copied_is_there_before_it_is_quantised(plan: Plan) -> None:
    found = ram(replace(plan, quantise="int8"), weights=GB, copied=int(1.5 * GB))
    assert found.most == found.program + int(1.5 * GB) + 100 * MB + JUDGING


def test_a_step_is_what_steps_have_been_seen_to_be(plan: Plan) -> None:
    assert ram(replace(plan, overhead=replace(FIRST, step=1.5))).step == int(1.5 * ram(plan).step)


def test_a_step_of_torchs_leaves_holes_in_the_heap(plan: Plan) -> None:
    native, torchs = ram(plan), ram(plan, native=False)
    assert torchs.activations == int(native.activations * HOLES) and torchs.logits == native.logits
    gpu = terms(plan, replace(MEASURE, native=False), "cuda", 2 * GB, 0)
    assert gpu.activations == native.activations


def test_a_gpu_has_what_cuda_takes_and_no_loading(plan: Plan) -> None:
    found = terms(plan, MEASURE, "cuda", 2 * GB, GB)
    assert found.program == FIRST.cuda and found.weights == int(2 * GB * 1.02)
    assert found.most == found.serving
