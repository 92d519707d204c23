"""The verdict: each check against machines that have just enough, and just too little."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checks import every, memory, port
from checks.finding import Finding, Refused, size
from checks.machine import Gpu, Machine
from checks.machine.filesystem import SPARE
from checks.machine.overhead import FIRST
from checks.measure import Measure
from checks.needs.needs import LEAST
from checks.plan import Plan
from checks.source.file import File
from checks.source.find import in_folder
from tests import tiny

Planner = Callable[..., Plan]
GB = 10**9
PROGRAM = FIRST.ram


def found(name: str, plan: Plan, machine: Machine) -> Finding:
    return next(finding for finding in every.run(plan, machine) if finding.name == name)


def eight_billion(planned: Planner, **changes: object) -> Plan:
    """A plan for a model of 16 GB in bfloat16, 131,072 bytes a token."""
    measure = Measure(8 * 10**9, "bfloat16", 16 * GB, 131_072, 0)
    plan = planned(**{key: value for key, value in changes.items() if key in ("device", "context", "kv")})
    config = dict(plan.repository.config) | {"dtype": "bfloat16"}
    repository = replace(plan.repository, config=config)
    rest = {key: value for key, value in changes.items() if key == "measure"}
    return replace(
        plan, **({"measure": measure, "longest": 131_072, "limit": 131_072} | rest), repository=repository
    )


def to_fetch(plan: Plan, num_bytes: int) -> Plan:
    files = (File("model.safetensors", num_bytes, False),)
    return replace(plan, repository=replace(plan.repository, folder=None, files=files))


def test_a_tiny_model_passes_every_check(planned: Planner, machine: Machine) -> None:
    findings = every.run(planned(), machine)
    assert [finding.name for finding in findings if not finding.ok] == []
    assert len(findings) == 9


def test_a_disk_one_byte_short_is_refused(planned: Planner, machine: Machine) -> None:
    plan = to_fetch(planned(), 10 * GB)
    need = 10 * GB + GB // 10 + SPARE
    assert found("disk", plan, replace(machine, disk=need)).ok
    finding = found("disk", plan, replace(machine, disk=need - 1))
    assert not finding.ok and "CACHE_DIR" in finding.mend


def test_files_in_the_cache_take_no_disk(planned: Planner, machine: Machine) -> None:
    plan = to_fetch(planned(), 10 * GB)
    here = replace(plan.repository, files=(File("model.safetensors", 10 * GB, True),))
    assert found("disk", replace(plan, repository=here), replace(machine, disk=0)).ok


def test_ram_holds_weights_program_and_a_first_answer(planned: Planner, machine: Machine) -> None:
    plan = eight_billion(planned)
    need = 16 * GB + PROGRAM + LEAST * 131_072
    assert found("RAM", plan, replace(machine, ram=need)).ok
    assert not found("RAM", plan, replace(machine, ram=need - 1)).ok


def test_on_a_gpu_the_weights_are_counted_there(planned: Planner, machine: Machine) -> None:
    plan = eight_billion(planned, device="cuda")
    roomy = replace(machine, ram=8 * GB, gpus=(Gpu("a", free=24 * GB, total=24 * GB),))
    assert all(finding.ok for finding in every.run(plan, roomy))
    crowded = replace(machine, gpus=(Gpu("a", free=12 * GB, total=24 * GB),))
    assert not found("GPU", plan, crowded).ok


def test_a_gpu_that_is_not_there_is_refused(planned: Planner, machine: Machine) -> None:
    assert 'DEVICE = "cpu"' in found("GPU", planned(device="cuda"), machine).mend


def test_the_context_shrinks_to_what_the_memory_holds(planned: Planner, machine: Machine) -> None:
    plan = eight_billion(planned, kv=131_072 * 5000)
    finding = found("context", plan, machine)
    assert finding.ok and finding.need == "5000 tokens"
    assert memory.budget(plan, machine) == memory.Budget(5000, 131_072 * 5000)


def test_a_context_asked_for_must_fit(planned: Planner, machine: Machine) -> None:
    finding = found("context", eight_billion(planned, context=6000, kv=131_072 * 5000), machine)
    assert not finding.ok and finding.mend == "CONTEXT = 5000, or 0"


def test_a_context_beyond_the_models_own_is_refused(planned: Planner, machine: Machine) -> None:
    finding = found("context", planned(context=513), machine)
    assert not finding.ok and finding.mend == "CONTEXT = 512, or 0"


def test_kv_is_no_larger_than_every_row_can_fill(planned: Planner, machine: Machine) -> None:
    plan = planned(rows=4)
    assert plan.measure is not None
    assert memory.budget(plan, machine) == memory.Budget(512, 4 * 512 * plan.measure.token)


def test_pickles_are_refused(tmp_path: Path, planned: Planner, machine: Machine) -> None:
    folder = tiny.llama(tmp_path / "bin")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    finding = found("weights", planned(in_folder("bin", folder, code=False)), machine)
    assert not finding.ok and "pytorch_model.bin, a pickle" in finding.mend


def test_a_missing_shard_is_named(tmp_path: Path, planned: Planner, machine: Machine) -> None:
    folder = tiny.llama(tmp_path / "shards")
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    finding = found("weights", planned(in_folder("shards", folder, code=False)), machine)
    assert not finding.ok and finding.mend.startswith("model-2.safetensors is missing")


def test_an_unknown_architecture_is_refused(tmp_path: Path, planned: Planner, machine: Machine) -> None:
    folder = tiny.llama(tmp_path / "odd")
    tiny.edit(folder / "config.json", model_type="llama99")
    finding = found("architecture", planned(in_folder("odd", folder, code=False)), machine)
    assert not finding.ok and "'llama99', which transformers" in finding.mend


def test_a_config_that_makes_no_sense_is_refused(tmp_path: Path, planned: Planner) -> None:
    folder = tiny.llama(tmp_path / "wrong")
    tiny.edit(folder / "config.json", hidden_size="wide")
    with pytest.raises(Refused) as caught:
        planned(in_folder("wrong", folder, code=False))
    assert "hidden_size" in caught.value.finding.have


@pytest.mark.parametrize(
    ("taken", "word"), [("Address already in use", "PORT"), ("Permission denied", "1024"), ("what", "HOST")]
)
def test_a_port_that_cannot_be_had_says_what_to_set(taken: str, word: str) -> None:
    finding = port.check("127.0.0.1", 80, taken)
    assert not finding.ok and word in finding.mend


def test_the_table_lines_up_and_puts_the_mend_below() -> None:
    findings = [
        Finding("disk", "1 GB", "2 GB free", True),
        Finding("memory", "14.9 GB", "1 GB", False, "buy some"),
    ]
    assert every.table(findings).splitlines() == [
        "check       need     have",
        "disk    ok  1 GB     2 GB free",
        "memory  NO  14.9 GB  1 GB",
        "        mend: buy some",
    ]


def test_json_says_the_verdict_and_every_finding() -> None:
    findings = [Finding("disk", "1 GB", "2 GB", True), Finding("RAM", "2", "1", False, "less")]
    told = json.loads(every.as_json(findings))
    assert told["ok"] is False
    assert told["findings"][1] == {"name": "RAM", "need": "2", "have": "1", "ok": False, "mend": "less"}


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(14_900_000_000, "14.9 GB"), (3_200_000, "3.2 MB"), (1000, "1.0 kB"), (7, "7 bytes")],
)
def test_sizes_are_told_in_decimal_units(num_bytes: int, text: str) -> None:
    assert size(num_bytes) == text


def test_what_a_stranger_wrote_cannot_draw_on_the_terminal() -> None:
    told = every.table([Finding("licence", "any", "\x1b[2Jmit\nRAM  ok" + "x" * 10_000, False, "ask\r\x07")])
    assert len(told.splitlines()) == 3 and max(map(len, told.splitlines())) < 400
    assert all(letter.isprintable() for line in told.splitlines() for letter in line)


def test_the_files_to_fetch_are_told_with_their_bytes() -> None:
    files = [File("config.json", 700, here=False), File("model.safetensors", 9000, here=False, kept=1000)]
    told = every.table([], files=files).splitlines()
    assert told[-2:] == ["  model.safetensors  8,000", "  config.json          700"]
    assert json.loads(every.as_json([], files=files))["fetch"] == [
        {"file": "config.json", "bytes": 700},
        {"file": "model.safetensors", "bytes": 8000},
    ]


def test_of_many_files_the_largest_are_told() -> None:
    told = every.table([], files=[File(f"{number:02}", number, here=False) for number in range(13)])
    assert told.splitlines()[-1].split() == ["3", "more", "3"]
