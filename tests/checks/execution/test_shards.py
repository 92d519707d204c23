"""Whether NUM_SHARD processes can share a model, and what each of them holds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checks.execution import shards
from checks.machine import Gpu, Machine
from checks.memory.plan import Plan
from checks.resources import enough_memory
from hub.resolve import from_folder
from inference.model.load.meta_model import build_on_meta
from tests.tiny_models import tiny

Planner = Callable[..., Plan]

GPU = Gpu("one", 10**10, 10**10)


def test_one_process_is_not_checked(planned: Planner, machine: Machine) -> None:
    assert shards.check(planned(), machine) is None


def test_two_processes_can_share_a_llama_with_two_key_heads(planned: Planner, machine: Machine) -> None:
    finding = shards.check(planned(num_shard=2), machine)
    assert finding is not None and finding.ok


def test_heads_that_do_not_divide_are_refused(planned: Planner, machine: Machine) -> None:
    finding = shards.check(planned(num_shard=4), machine)
    assert finding is not None and not finding.ok and finding.fix == "NUM_SHARD = 2"
    assert finding.have == "numbers of heads that it does not divide: 4 and 2 heads"


def test_each_shard_has_a_gpu(planned: Planner, machine: Machine) -> None:
    finding = shards.check(planned(num_shard=2, device="cuda"), replace(machine, gpus=(GPU,)))
    assert finding is not None and not finding.ok and finding.have.startswith("1 GPU,")
    finding = shards.check(planned(num_shard=2, device="cuda"), replace(machine, gpus=(GPU, GPU)))
    assert finding is not None and finding.ok


@pytest.mark.parametrize(
    ("kind", "message"), [("gpt2", "without a tensor-parallel plan"), ("gemma3n_text", "splits wrongly")]
)
def test_a_model_that_cannot_be_split_is_refused(
    tmp_path: Path, planned: Planner, machine: Machine, kind: str, message: str
) -> None:
    folder = tiny.llama(tmp_path / kind)
    (folder / "config.json").write_text(f'{{"model_type": "{kind}"}}')
    plan = replace(planned(num_shard=2), repository=from_folder(kind, folder))
    finding = shards.check(plan, machine)
    assert finding is not None and not finding.ok and message in finding.have


def test_each_of_two_shards_holds_half_of_the_weights_and_of_the_kv_cache(planned: Planner) -> None:
    full, half = planned().model_size, planned(num_shard=2).model_size
    assert full is not None and half is not None
    tp_plan = build_on_meta(tiny.LLAMA | {"model_type": "llama"}).tp_plan
    # transformers 5.17 gives each rank all embeddings.
    embedding_bytes = 0 if "model.embed_tokens" in tp_plan else full.largest_weight
    split_bytes = full.weights - embedding_bytes
    assert 0.5 * split_bytes <= half.weights - embedding_bytes < 0.51 * split_bytes
    assert half.kv_cost.per_token == full.kv_cost.per_token // 2


def test_each_of_two_shards_has_half_of_the_ram(planned: Planner, machine: Machine) -> None:
    plan = planned(num_shard=2, kv_memory_bytes=4 * 10**9)
    assert enough_memory.plan_budget(plan, machine).kv_memory_bytes == 2 * 10**9
    finding = enough_memory.check_ram(plan, machine)
    assert finding is not None and finding.name == "RAM per shard" and finding.have == "50.0 GB free"


def test_the_fullest_gpu_decides(planned: Planner, machine: Machine) -> None:
    full = replace(GPU, free=10**8)
    (finding,) = enough_memory.check_gpus(
        planned(num_shard=2, device="cuda"), replace(machine, gpus=(GPU, full, GPU))
    )
    assert not finding.ok and finding.name.endswith("per shard") and finding.have == "100.0 MB free"
