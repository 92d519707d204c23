"""Whether NUM_SHARD processes can share a model, and what each of them holds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checks import memory, shards
from checks.machine import Gpu, Machine
from checks.plan import Plan
from checks.source.find import in_folder
from tests import tiny

Planner = Callable[..., Plan]

GPU = Gpu("one", 10**10, 10**10)


def test_one_process_is_not_asked(planned: Planner, machine: Machine) -> None:
    assert shards.check(planned(), machine) is None


def test_two_processes_share_a_llama_of_two_key_heads(planned: Planner, machine: Machine) -> None:
    finding = shards.check(planned(shards=2), machine)
    assert finding is not None and finding.ok


def test_heads_that_do_not_divide_are_refused(planned: Planner, machine: Machine) -> None:
    finding = shards.check(planned(shards=4), machine)
    assert finding is not None and not finding.ok and finding.mend == "NUM_SHARD = 2"
    assert finding.have == "heads that do not divide by it: 4 and 2 of them"


def test_each_shard_has_a_gpu(planned: Planner, machine: Machine) -> None:
    finding = shards.check(planned(shards=2, device="cuda"), replace(machine, gpus=(GPU,)))
    assert finding is not None and not finding.ok and finding.have.startswith("1 GPUs")
    finding = shards.check(planned(shards=2, device="cuda"), replace(machine, gpus=(GPU, GPU)))
    assert finding is not None and finding.ok


@pytest.mark.parametrize(("kind", "told"), [("gpt2", "no plan to split"), ("gemma3n_text", "splits wrongly")])
def test_a_model_that_cannot_be_split_is_refused(
    tmp_path: Path, planned: Planner, machine: Machine, kind: str, told: str
) -> None:
    folder = tiny.llama(tmp_path / kind)
    (folder / "config.json").write_text(f'{{"model_type": "{kind}"}}')
    plan = replace(planned(shards=2), repository=in_folder(kind, folder, code=False))
    finding = shards.check(plan, machine)
    assert finding is not None and not finding.ok and told in finding.have


def test_each_of_two_holds_half_of_the_weights_and_of_the_tokens(planned: Planner) -> None:
    whole, half = planned().measure, planned(shards=2).measure
    assert whole is not None and half is not None
    assert 0.5 * whole.weights <= half.weights < 0.51 * whole.weights
    assert half.token == whole.token // 2


def test_each_of_two_has_half_of_the_ram(planned: Planner, machine: Machine) -> None:
    plan = planned(shards=2, kv=4 * 10**9)
    assert memory.budget(plan, machine).kv == 2 * 10**9
    finding = memory.check_ram(plan, machine)
    assert finding is not None and finding.name == "RAM a shard" and finding.have == "50.0 GB free"


def test_the_fullest_gpu_decides(planned: Planner, machine: Machine) -> None:
    full = replace(GPU, free=10**8)
    (finding,) = memory.check_gpus(planned(shards=2, device="cuda"), replace(machine, gpus=(GPU, full, GPU)))
    assert not finding.ok and finding.name.endswith("a shard") and finding.have == "100.0 MB free"
