"""The preflight: each check against machines that have just enough and just too little."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import transformers

from checks import preflight, report
from checks.machine import Gpu, Machine
from checks.memory import ModelSize
from checks.memory.estimate import MIN_CONTEXT
from checks.memory.overhead import DEFAULT_OVERHEAD
from checks.memory.plan import Plan
from checks.resources import enough_memory
from hub.client import Hub
from hub.repository import RepoFile
from hub.resolve import from_folder
from hub.weight_headers.safetensors import with_headers
from inference.finding import Finding, Refused, format_size
from inference.model.kv_cost import KVCost
from inference.process.filesystem import SPARE_BYTES
from tests.tiny_models import tiny

Planner = Callable[..., Plan]
GB = 10**9
PROGRAM = DEFAULT_OVERHEAD.ram + DEFAULT_OVERHEAD.workspaces  # of a model in 16 bits


def finding_named(name: str, plan: Plan, machine: Machine) -> Finding:
    return next(finding for finding in preflight.run_checks(plan, machine) if finding.name == name)


def eight_billion(planned: Planner, **changes: object) -> Plan:
    """A plan for a model of 16 GB in bfloat16 with 131,072 bytes of KV cache per token."""
    measure = ModelSize(8 * 10**9, "bfloat16", 16 * GB, KVCost(131_072))
    plan = planned(
        **{key: value for key, value in changes.items() if key in ("device", "context", "kv_memory_bytes")}
    )
    config = dict(plan.repository.config) | {"dtype": "bfloat16"}
    repository = replace(plan.repository, config=config)
    rest = {key: value for key, value in changes.items() if key == "model_size"}
    return replace(
        plan,
        **({"model_size": measure, "default_context": 131_072, "context_limit": 131_072} | rest),
        repository=repository,
    )


def to_fetch(plan: Plan, num_bytes: int) -> Plan:
    files = (RepoFile("model.safetensors", num_bytes, False),)
    return replace(plan, repository=replace(plan.repository, folder=None, files=files))


def test_a_tiny_model_passes_every_check(planned: Planner, machine: Machine) -> None:
    findings = preflight.run_checks(planned(), machine)
    assert [finding.name for finding in findings if not finding.ok] == []
    assert len(findings) == 10


def test_a_disk_one_byte_short_is_refused(planned: Planner, machine: Machine) -> None:
    plan = to_fetch(planned(), 10 * GB)
    need = 10 * GB + GB // 10 + SPARE_BYTES
    assert finding_named("disk", plan, replace(machine, disk=need)).ok
    finding = finding_named("disk", plan, replace(machine, disk=need - 1))
    assert not finding.ok and "CACHE_DIR" in finding.fix


def test_cached_files_need_no_disk(planned: Planner, machine: Machine) -> None:
    plan = to_fetch(planned(), 10 * GB)
    here = replace(plan.repository, files=(RepoFile("model.safetensors", 10 * GB, True),))
    assert finding_named("disk", replace(plan, repository=here), replace(machine, disk=0)).ok


def test_ram_must_hold_weights_program_and_a_first_answer(planned: Planner, machine: Machine) -> None:
    plan = eight_billion(planned)
    need = 16 * GB + PROGRAM + MIN_CONTEXT * 131_072
    assert finding_named("RAM", plan, replace(machine, ram=need)).ok
    assert not finding_named("RAM", plan, replace(machine, ram=need - 1)).ok


def test_with_a_gpu_the_weights_count_there(planned: Planner, machine: Machine) -> None:
    plan = eight_billion(planned, device="cuda")
    roomy = replace(machine, ram=8 * GB, gpus=(Gpu("a", free=24 * GB, total=24 * GB),))
    assert all(finding.ok for finding in preflight.run_checks(plan, roomy))
    crowded = replace(machine, gpus=(Gpu("a", free=12 * GB, total=24 * GB),))
    assert not finding_named("GPU", plan, crowded).ok


def test_a_missing_gpu_is_refused(planned: Planner, machine: Machine) -> None:
    assert 'DEVICE = "cpu"' in finding_named("GPU", planned(device="cuda"), machine).fix


def test_the_context_shrinks_to_what_the_memory_holds(planned: Planner, machine: Machine) -> None:
    plan = eight_billion(planned, kv_memory_bytes=131_072 * 5000)
    finding = finding_named("context", plan, machine)
    assert finding.ok and finding.need == "5000 tokens"
    assert enough_memory.plan_budget(plan, machine) == enough_memory.MemoryBudget(5000, 131_072 * 5000)


def test_a_requested_context_must_fit(planned: Planner, machine: Machine) -> None:
    finding = finding_named(
        "context", eight_billion(planned, context=6000, kv_memory_bytes=131_072 * 5000), machine
    )
    assert not finding.ok and finding.fix == "CONTEXT = 5000, or 0"


def test_a_context_beyond_the_models_own_is_lowered_with_a_warning(
    planned: Planner, machine: Machine
) -> None:
    plan = planned(context=4096)
    finding = finding_named("context", plan, machine)
    assert finding.ok and finding.fix.startswith("CONTEXT = 512, or 0")
    assert (finding.need, finding.have) == ("4096 tokens", "512 tokens, the model's limit, which is used")
    assert enough_memory.plan_budget(plan, machine).context == 512


def test_kv_memory_is_at_most_what_all_rows_can_fill(planned: Planner, machine: Machine) -> None:
    plan = planned(max_sequences=4)
    assert plan.model_size is not None
    assert enough_memory.plan_budget(plan, machine) == enough_memory.MemoryBudget(
        512, 4 * 512 * plan.model_size.kv_cost.per_token
    )


def test_pickles_are_refused(tmp_path: Path, planned: Planner, machine: Machine) -> None:
    folder = tiny.llama(tmp_path / "bin")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    finding = finding_named("weights", planned(from_folder("bin", folder)), machine)
    assert not finding.ok and "pytorch_model.bin, a pickle" in finding.fix


def test_a_missing_shard_is_named(tmp_path: Path, planned: Planner, machine: Machine) -> None:
    folder = tiny.llama(tmp_path / "shards")
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    finding = finding_named("weights", planned(from_folder("shards", folder)), machine)
    assert not finding.ok and finding.fix.startswith("model-2.safetensors is missing")


def test_an_unknown_architecture_is_refused(tmp_path: Path, planned: Planner, machine: Machine) -> None:
    folder = tiny.llama(tmp_path / "odd")
    tiny.edit(folder / "config.json", model_type="llama99")
    finding = finding_named("architecture", planned(from_folder("odd", folder)), machine)
    assert not finding.ok and "'llama99', which transformers" in finding.fix


def test_an_invalid_config_is_refused(tmp_path: Path, planned: Planner) -> None:
    folder = tiny.llama(tmp_path / "wrong")
    tiny.edit(folder / "config.json", hidden_size="wide")
    with pytest.raises(Refused) as caught:
        planned(from_folder("wrong", folder))
    assert "hidden_size" in caught.value.finding.have


def test_the_table_lines_up_and_puts_the_fix_below() -> None:
    findings = [
        Finding("disk", "1 GB", "2 GB free", True),
        Finding("memory", "14.9 GB", "1 GB", False, "buy some"),
    ]
    assert report.format_table(findings).splitlines() == [
        "check       need     have",
        "disk    ok  1 GB     2 GB free",
        "memory  NO  14.9 GB  1 GB",
        "        fix: buy some",
    ]


def test_json_contains_the_verdict_and_every_finding() -> None:
    findings = [Finding("disk", "1 GB", "2 GB", True), Finding("RAM", "2", "1", False, "less")]
    parsed = json.loads(report.format_json(findings))
    assert parsed["ok"] is False
    assert parsed["findings"][1] == {
        "name": "RAM",
        "need": "2",
        "have": "1",
        "ok": False,
        "fix": "less",
        "mend": "less",  # its former name
    }


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(14_900_000_000, "14.9 GB"), (3_200_000, "3.2 MB"), (1000, "1.0 kB"), (7, "7 bytes")],
)
def test_sizes_are_written_in_decimal_units(num_bytes: int, text: str) -> None:
    assert format_size(num_bytes) == text


def test_control_characters_of_a_model_card_do_not_reach_the_terminal() -> None:
    table = report.format_table(
        [Finding("licence", "any", "\x1b[2Jmit\nRAM  ok" + "x" * 10_000, False, "ask\r\x07")]
    )
    assert len(table.splitlines()) == 3 and max(map(len, table.splitlines())) < 400
    assert all(letter.isprintable() for line in table.splitlines() for letter in line)


def test_the_files_to_fetch_are_listed_with_their_bytes() -> None:
    files = [
        RepoFile("config.json", 700, is_local=False),
        RepoFile("model.safetensors", 9000, is_local=False, resumable_bytes=1000),
    ]
    lines = report.format_table([], files=files).splitlines()
    assert lines[-2:] == ["  model.safetensors  8,000", "  config.json          700"]
    assert json.loads(report.format_json([], files=files))["fetch"] == [
        {"file": "config.json", "bytes": 700},
        {"file": "model.safetensors", "bytes": 8000},
    ]


def test_only_the_largest_of_many_files_are_listed() -> None:
    table = report.format_table(
        [], files=[RepoFile(f"{number:02}", number, is_local=False) for number in range(13)]
    )
    assert table.splitlines()[-1].split() == ["3", "more", "3"]


@pytest.mark.parametrize(
    ("config", "have", "fix"),
    [
        ({"model_type": "llava"}, "not a text generator", "reads images together with text"),
        ({"model_type": "bert", "architectures": ["BertModel"]}, "not a text generator", "is an encoder"),
        ({"model_type": "own", "vision_config": {"depth": 1}}, "not a text generator", "reads images"),
        ({"model_type": "own", "transformers_version": "99.1"}, "unknown", "transformers>=99.1"),
    ],
)
def test_a_model_for_another_task_is_not_reported_as_unknown(
    tmp_path: Path, planned: Planner, machine: Machine, config: dict[str, Any], have: str, fix: str
) -> None:
    tiny.edit(tiny.llama(tmp_path) / "config.json", **{"transformers_version": "99.0"} | config)
    finding = finding_named("architecture", planned(from_folder("other", tmp_path)), machine)
    assert (finding.ok, finding.have) == (False, have) and fix in finding.fix


def test_files_without_a_head_are_reported_as_those_of_an_embedding_model(
    tmp_path: Path, planned: Planner, machine: Machine, client: Hub
) -> None:
    folder = tiny.save_model(tmp_path, transformers.MistralModel, transformers.MistralConfig(**tiny.LLAMA))
    repository = with_headers(from_folder("base", folder), client)
    finding = finding_named("weights", planned(repository), machine)
    assert not finding.ok and "lm_head.weight" in finding.have
    assert finding.fix.startswith("the files are weights of MistralModel, which computes embeddings")
