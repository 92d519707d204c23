"""Quantized models: their size, whether this machine supports them, and when they are suggested."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import transformers

from checks import preflight
from checks.execution import quantize
from checks.machine import Machine
from checks.memory import ModelSize
from checks.memory.estimate import MIN_CONTEXT
from checks.memory.overhead import DEFAULT_OVERHEAD
from checks.memory.plan import Plan
from checks.resources import enough_memory
from hub.resolve import from_folder
from inference.finding import Finding
from inference.model.kv_cost import KVCost
from inference.native.library import OFF
from tests.native.native_setting import native_setting
from tests.tiny_models import tiny

Planner = Callable[..., Plan]
GB = 10**9
PROGRAM = DEFAULT_OVERHEAD.ram + DEFAULT_OVERHEAD.workspaces  # of a model in 16 bits
MEASURE = ModelSize(
    8 * 10**9, "bfloat16", 16 * GB, KVCost(131_072), quantization_savings={"int8": 8 * GB, "int4": 11 * GB}
)


def ram(plan: Plan, machine: Machine, free: float) -> Finding:
    findings = preflight.run_checks(plan, replace(machine, ram=int(free)))
    return next(finding for finding in findings if finding.name == "RAM")


def eight_billion(planned: Planner, copied: int = 0, **changes: object) -> Plan:
    measure = replace(MEASURE, load_copy_bytes=copied)
    return replace(planned(), model_size=measure, default_context=131_072, context_limit=131_072, **changes)


def test_layers_and_vocabulary_are_counted_in_their_own_formats(tmp_path: Path, planned: Planner) -> None:
    """All dimensions are at least 64: no weight is too small to be quantized."""
    shape = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 2, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(**tiny.LLAMA | shape)
    folder = tiny.save_model(tmp_path / "wide", transformers.LlamaForCausalLM, config)
    measure = planned(from_folder("wide", folder), dtype="bfloat16").model_size
    assert measure is not None
    ends, layers = 2 * 320 * 128, 2 * (4 * 128 * 128 + 3 * 128 * 256)
    outputs = 2 * (5 * 128 + 2 * 256)
    assert measure.weights - measure.buffers == 2 * (ends + layers + 5 * 128)  # the norms
    assert measure.quantization_savings["int8"] == ends + layers - 4 * (2 * 320 + outputs)
    assert measure.quantization_savings["int4"] == ends - 4 * 2 * 320 + layers * (2 - 0.5625)


def test_quantizing_saves_ram(planned: Planner, machine: Machine) -> None:
    least = PROGRAM + MIN_CONTEXT * 131_072
    for kind, weights in (("none", 16 * GB), ("int8", 8 * GB), ("int4", 5 * GB)):
        plan = eight_billion(planned, quantize=kind)
        assert ram(plan, machine, weights + least).ok
        assert not ram(plan, machine, weights + least - 1).ok
    assert "of int4 weights" in ram(plan, machine, 10 * GB).need


def test_weights_that_are_converted_first_must_fit_unquantized(planned: Planner, machine: Machine) -> None:
    plan = eight_billion(planned, copied=16 * GB, quantize="int4")
    least = 16 * GB + PROGRAM
    assert ram(plan, machine, least).ok and not ram(plan, machine, least - 1).ok
    roomy = enough_memory.plan_budget(plan, replace(machine, ram=20 * GB))
    assert (
        roomy.kv_memory_bytes
        > enough_memory.plan_budget(
            replace(plan, quantize="none"), replace(machine, ram=20 * GB)
        ).kv_memory_bytes
    )


def test_without_quantization_there_is_no_finding(planned: Planner, machine: Machine) -> None:
    assert quantize.check(planned(), machine) is None


def test_a_mix_that_a_gpu_lacks_is_refused_with_one_that_it_has(planned: Planner, machine: Machine) -> None:
    finding = quantize.check(replace(planned(quantize="q4_k_m"), device="cuda"), machine)
    assert finding is not None and not finding.ok and finding.have == "kernels for a CPU only"
    assert finding.fix == 'QUANTIZE = "int4", or DEVICE = "cpu"'


def test_a_file_that_is_no_imatrix_is_refused(planned: Planner, machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "a.dat").write_bytes(bytes(64))
    finding = quantize.check(planned(quantize="q4_k_m", imatrix=tmp_path / "a.dat"), machine)
    assert finding is not None and not finding.ok and "no file of llama-imatrix" in finding.have


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        ({"device": "cuda", "layer_devices": ("cuda:0", "cpu")}, 'LAYERS = ""'),
        ({"num_shard": 2}, "NUM_SHARD = 1"),
        ({"model_size": replace(MEASURE, dtype="float16")}, 'DTYPE = "auto"'),
    ],
)
def test_configurations_without_kernels_are_refused(
    planned: Planner, machine: Machine, changes: dict[str, object], fix: str
) -> None:
    finding = quantize.check(replace(planned(quantize="int8"), **changes), machine)
    assert finding is not None and not finding.ok
    assert finding.fix == f'{fix}, or QUANTIZE = "none"'


def test_without_kernels_it_is_refused_before_the_download(planned: Planner, machine: Machine) -> None:
    with native_setting(OFF):
        finding = quantize.check(planned(quantize="int8"), machine)
    assert finding is not None and not finding.ok and "no kernels" in finding.have
    assert finding.fix == 'install a C compiler, or QUANTIZE = "none"'
