"""What is proposed where a plan does not fit: it fits, the least change comes first, pasting works."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ahead import looked_up
from checks import every
from checks.machine import Gpu, Machine
from checks.measure import Measure
from checks.nearest import fits, nearest
from checks.needs.needs import needed, parts
from checks.plan import Plan
from settings.layers import Layer, config_layer
from settings.resolve import resolve
from tests import tiny
from wiring import plan_of

Planner = Callable[..., Plan]
GB = 10**9
HOME = Path(__file__).parents[2]
MEASURE = Measure(
    8 * GB, "bfloat16", 16 * GB, 131_072, 0, layers=(GB,) * 16, saves={"int8": 8 * GB, "int4": 11 * GB}
)


def eight_billion(planned: Planner, **asked: object) -> Plan:
    """16 GB of weights in bfloat16, 131,072 bytes a token."""
    plan = planned(dtype="bfloat16", **asked)
    repository = replace(plan.repository, config=dict(plan.repository.config) | {"dtype": "bfloat16"})
    return replace(plan, measure=MEASURE, longest=131_072, limit=131_072, repository=repository)


def lines(plan: Plan, machine: Machine) -> list[str]:
    return [found.line for found in nearest(plan, machine)]


def test_nothing_is_proposed_where_the_plan_fits(planned: Planner, machine: Machine) -> None:
    assert nearest(eight_billion(planned), machine) == []


def test_fewer_bits_come_in_order(planned: Planner, machine: Machine) -> None:
    found = nearest(eight_billion(planned), replace(machine, ram=14 * GB))
    assert [item.line for item in found] == ['QUANTISE = "int8"', 'QUANTISE = "int4"']
    assert found[0].context < found[1].context
    assert found[0].need == "8.7 GB of RAM"


def test_a_context_too_long_may_be_cut_or_the_weights(planned: Planner, machine: Machine) -> None:
    plan = eight_billion(planned, context=100_000)
    found = nearest(plan, replace(machine, ram=40 * GB))
    assert [sorted(item.settings) for item in found] == [["CONTEXT"], ["QUANTISE"], ["QUANTISE"]]
    assert found[0].context % 256 == 0 and found[0].context < 100_000 == found[1].context


def test_a_context_beyond_the_models_own_is_cut_to_it(planned: Planner, machine: Machine) -> None:
    assert lines(planned(context=513), machine) == ["CONTEXT = 512"]


def test_memory_held_for_tokens_is_given_up_first(planned: Planner, machine: Machine) -> None:
    found = lines(eight_billion(planned, kv=90 * GB), replace(machine, ram=40 * GB))
    assert found[0] == "KV_MEMORY_GB = 0"


def test_from_a_gpu_layers_go_to_the_cpu_then_all(planned: Planner, machine: Machine) -> None:
    crowded = replace(machine, ram=30 * GB, gpus=(Gpu("a", 10 * GB, 24 * GB),))
    found = lines(eight_billion(planned, device="cuda"), crowded)
    assert found[:2] == ['LAYERS = "8"', 'DEVICE = "cpu"']
    assert found[2] == 'DEVICE = "cpu"; QUANTISE = "int8"'


def test_from_the_cpu_a_gpu_with_room_is_proposed(planned: Planner, machine: Machine) -> None:
    roomy = replace(machine, ram=6 * GB, gpus=(Gpu("a", 24 * GB, 24 * GB),))
    assert lines(eight_billion(planned), roomy) == ['QUANTISE = "int4"', 'DEVICE = "cuda"']


def test_what_no_configuration_mends_gets_none(planned: Planner, machine: Machine) -> None:
    assert nearest(eight_billion(planned), replace(machine, ram=2 * GB)) == []


def test_every_line_pasted_into_config_py_fits(tmp_path: Path, machine: Machine) -> None:
    """A real model, config.py as it is, a machine a little too small for what is asked."""
    folder = tiny.llama(tmp_path / "wide", hidden_size=2048, intermediate_size=4096)
    asked = Layer("flags", {"MODEL_NAME": str(folder)})

    def planned_with(line: str) -> Plan:
        pasted = tmp_path / "config.py"
        wish = 'DTYPE = "float32"\nCONTEXT = 500\n'
        pasted.write_text(f"{(HOME / 'config.py').read_text()}\n{wish}{line}\n")
        wishes = resolve((config_layer(pasted), asked))
        return plan_of(wishes, looked_up(wishes, tmp_path), machine)

    plan = planned_with("")
    assert plan.measure is not None
    need = needed(plan, plan.measure, parts(plan, plan.measure)[0])
    small = replace(machine, ram=need - plan.overhead.own - 1)
    found = nearest(plan, small)
    assert len(found) == 3
    for item in found:
        assert fits(planned_with(item.line), small), item.line


def test_table_and_json_name_them(planned: Planner, machine: Machine) -> None:
    small = replace(machine, ram=14 * GB)
    plan = eight_billion(planned)
    findings, found = every.run(plan, small), nearest(plan, small)
    assert '\n  QUANTISE = "int8"  8.7 GB of RAM, context ' in every.table(findings, found)
    assert '"line": "QUANTISE = \\"int4\\""' in every.as_json(findings, found)
    assert "config.py" not in every.table(findings)


@pytest.mark.parametrize("free", [10, 7])
def test_what_is_proposed_fits(planned: Planner, machine: Machine, free: int) -> None:
    scarce = replace(machine, ram=free * GB)
    found = nearest(eight_billion(planned), scarce)
    assert found and not fits(eight_billion(planned), scarce)
    assert fits(eight_billion(planned, quantise=found[0].settings["QUANTISE"]), scarce)
