"""SEAT is refused before the fetch where the load would refuse it for what shows without values."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from checks import seat
from checks.machine import Gpu, Machine
from checks.measure import measure
from checks.plan import Plan
from inference.errors import Unavailable
from inference.model import fit
from tests import families
from tests.families import CONTEXT, FAMILIES, UNUSUAL, VOCAB

Planner = Callable[..., Plan]

# Each seat is refused by some of them.
SOME = ("llama", "mixtral", "gpt2", "bloom", "jamba", "mamba", "t5", "openai-gpt", "deepseek_v3")


def raw(family: str) -> dict[str, Any]:
    return {"vocab_size": VOCAB} | (FAMILIES | UNUSUAL | families.UNCACHED)[family] | {"model_type": family}


def test_auto_is_not_asked(planned: Planner, machine: Machine) -> None:
    assert seat.check(planned(), machine) is None


@pytest.mark.parametrize("name", fit.KINDS)
def test_a_llama_takes_every_seat(planned: Planner, machine: Machine, name: str) -> None:
    finding = seat.check(planned(seat=name), machine)
    assert finding is not None and finding.ok and finding.need == name


@pytest.mark.parametrize(
    ("changes", "have", "mend"),
    [
        ({"seat": "packed", "alone": True}, "DETERMINISTIC", "DETERMINISTIC = False"),
        ({"seat": "fused", "device": "cuda"}, "GPU", 'DEVICE = "cpu"'),
        ({"seat": "fused", "shards": 2}, "2 processes", "NUM_SHARD = 1"),
        ({"seat": "fused", "dtype": "float16"}, "refuses: is in float16", 'SEAT = "auto"'),
    ],
)
def test_what_is_in_the_way_is_named(
    planned: Planner, machine: Machine, changes: dict[str, Any], have: str, mend: str
) -> None:
    gpu = replace(machine, gpus=(Gpu("a", 10**10, 10**10),))
    finding = seat.check(planned(**changes), gpu)
    assert finding is not None and not finding.ok
    assert have in finding.have and finding.mend.endswith(mend)


@pytest.mark.parametrize("name", ("fused", "packed", "slots"))
@pytest.mark.parametrize("family", SOME)
def test_a_seat_that_refuses_a_model_without_values_refuses_it_with_them(family: str, name: str) -> None:
    refused = measure(raw(family), 0, lambda parameters: "float32", seat=name).unfit
    model = families.tiny(family)
    try:
        fit.choose(model, max_rows=1, context=CONTEXT, kv_bytes=1 << 24, kinds=(name,))
    except Unavailable:
        assert refused
    else:
        assert not refused
