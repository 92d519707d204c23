"""Suggestions for a plan that does not fit: they fit, smallest change first, as lines for config.py."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checks import preflight, report
from checks.machine import Gpu, Machine
from checks.memory import ModelSize
from checks.memory.estimate import count_needed_bytes, device_parts
from checks.memory.plan import Plan
from checks.preflight import plan_repository
from checks.suggestions import fits, suggest
from hub.resolve import resolve_model
from inference.model.kv_cost import KVCost
from settings.sources import Source, read_config_file, resolve
from tests.tiny_models import tiny

Planner = Callable[..., Plan]
GB = 10**9
HOME = Path(__file__).parents[2]
MEASURE = ModelSize(
    8 * GB,
    "bfloat16",
    16 * GB,
    KVCost(131_072),
    layer_weights=(GB,) * 16,
    quantization_savings={"int8": 8 * GB, "int4": 11 * GB},
)


def eight_billion(planned: Planner, **changes: object) -> Plan:
    """16 GB of weights in bfloat16, and 131,072 bytes of KV cache per token."""
    plan = planned(dtype="bfloat16", **changes)
    repository = replace(plan.repository, config=dict(plan.repository.config) | {"dtype": "bfloat16"})
    return replace(
        plan, model_size=MEASURE, default_context=131_072, context_limit=131_072, repository=repository
    )


def lines(plan: Plan, machine: Machine) -> list[str]:
    return [suggestion.config_line for suggestion in suggest(plan, machine)]


def test_a_plan_that_fits_gets_no_suggestions(planned: Planner, machine: Machine) -> None:
    assert suggest(eight_billion(planned), machine) == []


def test_quantizations_are_suggested_in_order(planned: Planner, machine: Machine) -> None:
    suggestions = suggest(eight_billion(planned), replace(machine, ram=14 * GB))
    assert [item.config_line for item in suggestions] == ['QUANTIZE = "int8"', 'QUANTIZE = "int4"']
    assert suggestions[0].context < suggestions[1].context
    assert suggestions[0].need == "8.7 GB of RAM"


def test_for_a_context_too_long_a_shorter_one_or_quantization_is_suggested(
    planned: Planner, machine: Machine
) -> None:
    plan = eight_billion(planned, context=100_000)
    suggestions = suggest(plan, replace(machine, ram=40 * GB))
    assert [sorted(item.settings) for item in suggestions] == [["CONTEXT"], ["QUANTIZE"], ["QUANTIZE"]]
    assert suggestions[0].context % 256 == 0 and suggestions[0].context < 100_000 == suggestions[1].context


def test_a_context_beyond_the_models_own_needs_no_suggestion(planned: Planner, machine: Machine) -> None:
    assert lines(planned(context=513), machine) == []


def test_kv_memory_of_the_settings_is_given_up_first(planned: Planner, machine: Machine) -> None:
    suggestions = lines(eight_billion(planned, kv_memory_bytes=90 * GB), replace(machine, ram=40 * GB))
    assert suggestions[0] == "KV_MEMORY_GB = 0"


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        (10, ['QUANTIZE = "int8"', 'QUANTIZE = "int4"', 'LAYERS = "9"']),
        (4, ['LAYERS = "3"', 'DEVICE = "cpu"', 'DEVICE = "cpu"; QUANTIZE = "int8"']),
    ],
)
def test_a_full_gpu_gets_fewer_bits_then_fewer_layers_and_then_none(
    planned: Planner, machine: Machine, free: int, expected: list[str]
) -> None:
    crowded = replace(machine, ram=30 * GB, gpus=(Gpu("a", free * GB, 24 * GB),))
    assert lines(eight_billion(planned, device="cuda"), crowded) == expected


def test_a_gpu_with_enough_memory_is_suggested_instead_of_the_cpu(planned: Planner, machine: Machine) -> None:
    roomy = replace(machine, ram=6 * GB, gpus=(Gpu("a", 24 * GB, 24 * GB),))
    assert lines(eight_billion(planned), roomy) == [
        'QUANTIZE = "int4"',
        'DEVICE = "cuda"',
        'DEVICE = "cuda"; QUANTIZE = "int8"',
    ]


def test_a_machine_that_is_too_small_gets_no_suggestions(planned: Planner, machine: Machine) -> None:
    assert suggest(eight_billion(planned), replace(machine, ram=2 * GB)) == []


def test_every_line_pasted_into_config_py_fits(tmp_path: Path, machine: Machine) -> None:
    """A real model, the present config.py, and a machine slightly too small for the requested settings."""
    folder = tiny.llama(tmp_path / "wide", hidden_size=2048, intermediate_size=4096)
    flags = Source("flags", {"MODEL_NAME": str(folder)})

    def planned_with(line: str) -> Plan:
        pasted = tmp_path / "config.py"
        requested = 'DTYPE = "float32"\nCONTEXT = 500\n'
        pasted.write_text(f"{(HOME / 'config.py').read_text()}\n{requested}{line}\n")
        resolved_settings = resolve((read_config_file(pasted), flags))
        return plan_repository(resolved_settings, resolve_model(resolved_settings, tmp_path), machine)

    plan = planned_with("")
    assert plan.model_size is not None
    need = count_needed_bytes(plan, plan.model_size, device_parts(plan, plan.model_size)[0])
    small = replace(machine, ram=need - plan.overhead.private - 1)
    suggestions = suggest(plan, small)
    assert len(suggestions) == 3
    for item in suggestions:
        assert fits(planned_with(item.config_line), small), item.config_line


def test_table_and_json_list_the_suggestions(planned: Planner, machine: Machine) -> None:
    small = replace(machine, ram=14 * GB)
    plan = eight_billion(planned)
    findings, suggestions = preflight.run_checks(plan, small), suggest(plan, small)
    assert '\n  QUANTIZE = "int8"  8.7 GB of RAM, context ' in report.format_table(findings, suggestions)
    assert '"line": "QUANTIZE = \\"int4\\""' in report.format_json(findings, suggestions)
    assert "config.py" not in report.format_table(findings)


@pytest.mark.parametrize("free", [10, 7])
def test_suggestions_fit(planned: Planner, machine: Machine, free: int) -> None:
    scarce = replace(machine, ram=free * GB)
    suggestions = suggest(eight_billion(planned), scarce)
    assert suggestions and not fits(eight_billion(planned), scarce)
    assert fits(eight_billion(planned, quantize=suggestions[0].settings["QUANTIZE"]), scarce)
