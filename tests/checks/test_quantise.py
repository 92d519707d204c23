"""Models with fewer bits a weight: what they take, whether they can be had here, when they are proposed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import transformers

from checks import every, memory, quantise
from checks.finding import Finding
from checks.machine import Machine
from checks.machine.overhead import FIRST
from checks.measure import Measure
from checks.needs.needs import LEAST
from checks.plan import Plan
from checks.source.find import in_folder
from inference.native.library import SETTING, library
from tests import tiny

Planner = Callable[..., Plan]
GB = 10**9
PROGRAM = FIRST.ram
MEASURE = Measure(8 * 10**9, "bfloat16", 16 * GB, 131_072, 0, saves={"int8": 8 * GB, "int4": 11 * GB})


def ram(plan: Plan, machine: Machine, free: float) -> Finding:
    findings = every.run(plan, replace(machine, ram=int(free)))
    return next(finding for finding in findings if finding.name == "RAM")


def eight_billion(planned: Planner, copied: int = 0, **changes: object) -> Plan:
    measure = replace(MEASURE, copied=copied)
    return replace(planned(), measure=measure, longest=131_072, limit=131_072, **changes)


def test_layers_and_vocabulary_are_counted_in_their_own_kinds(tmp_path: Path, planned: Planner) -> None:
    """64 inputs and more: nothing of this model is small."""
    shape = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 2, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(**tiny.LLAMA | shape)
    folder = tiny.saved(tmp_path / "wide", transformers.LlamaForCausalLM, config)
    measure = planned(in_folder("wide", folder, code=False), dtype="bfloat16").measure
    assert measure is not None
    ends, layers = 2 * 320 * 128, 2 * (4 * 128 * 128 + 3 * 128 * 256)
    outputs = 2 * (5 * 128 + 2 * 256)
    assert measure.weights - measure.buffers == 2 * (ends + layers + 5 * 128)  # the norms
    assert measure.saves["int8"] == ends + layers - 4 * (2 * 320 + outputs)
    assert measure.saves["int4"] == ends - 4 * 2 * 320 + layers * (2 - 0.5625)


def test_fewer_bits_leave_more_ram(planned: Planner, machine: Machine) -> None:
    least = PROGRAM + LEAST * 131_072
    for kind, weights in (("none", 16 * GB), ("int8", 8 * GB), ("int4", 5 * GB)):
        plan = eight_billion(planned, quantise=kind)
        assert ram(plan, machine, weights + least).ok
        assert not ram(plan, machine, weights + least - 1).ok
    assert "of int4 weights" in ram(plan, machine, 10 * GB).need


def test_weights_that_are_converted_first_must_fit_as_they_are(planned: Planner, machine: Machine) -> None:
    plan = eight_billion(planned, copied=16 * GB, quantise="int4")
    least = 16 * GB + PROGRAM
    assert ram(plan, machine, least).ok and not ram(plan, machine, least - 1).ok
    roomy = memory.budget(plan, replace(machine, ram=20 * GB))
    assert roomy.kv > memory.budget(replace(plan, quantise="none"), replace(machine, ram=20 * GB)).kv


def test_nothing_is_said_where_nothing_is_asked(planned: Planner, machine: Machine) -> None:
    assert quantise.check(planned(), machine) is None


@pytest.mark.parametrize(
    ("changes", "mend"),
    [
        ({"device": "cuda"}, 'DEVICE = "cpu"'),
        ({"shards": 2}, "NUM_SHARD = 1"),
        ({"measure": replace(MEASURE, dtype="float16")}, 'DTYPE = "auto"'),
    ],
)
def test_what_the_kernels_are_not_for_is_refused(
    planned: Planner, machine: Machine, changes: dict[str, object], mend: str
) -> None:
    finding = quantise.check(replace(planned(quantise="int8"), **changes), machine)
    assert finding is not None and not finding.ok
    assert finding.mend == f'{mend}, or QUANTISE = "none"'


def test_without_kernels_it_is_refused_before_the_download(
    planned: Planner, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.cache_clear()
    monkeypatch.setenv(SETTING, "off")
    try:
        finding = quantise.check(planned(quantise="int8"), machine)
    finally:
        library.cache_clear()
    assert finding is not None and not finding.ok and "no kernels" in finding.have
    assert finding.mend == 'install a C compiler, or QUANTISE = "none"'
