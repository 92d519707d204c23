"""Adapters of LORA_ADAPTERS are checked before the model is fetched, and their memory is planned."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from checks.machine import Machine
from checks.memory.plan import Plan, replan
from checks.model.adapters import AdapterCheck, check_adapters, check_distinct, num_resident_values
from checks.resources.enough_memory import check_ram, plan_budget
from hub.client import Hub
from hub.repository import Repository
from hub.resolve import from_folder
from inference.finding import Finding
from tests.fakes import fake_hub
from tests.settings.parsed_settings import parsed_settings
from tests.tiny_models import tiny

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return from_folder("tiny", tiny.llama(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, model: Repository) -> Path:
    folder = tmp_path_factory.mktemp("poet")
    base = AutoModelForCausalLM.from_pretrained(model.folder, dtype=torch.float32)
    config = LoraConfig(r=4, target_modules=["q_proj", "o_proj"], task_type="CAUSAL_LM")
    get_peft_model(base, config).save_pretrained(folder)
    return folder


@pytest.fixture
def poet(template: Path, tmp_path: Path) -> Path:
    """An adapter that could be served, to be spoiled."""
    folder = tmp_path / "poet"
    folder.mkdir()
    for name in (CONFIG, WEIGHTS):
        (folder / name).write_bytes((template / name).read_bytes())
    return folder


@pytest.fixture
def check(model: Repository, planned: Callable[..., Plan], client: Hub) -> Callable[..., list[AdapterCheck]]:
    def check_it(*items: str, **settings: object) -> list[AdapterCheck]:
        values = {"MODEL_NAME": "acme/tiny", "LORA_ADAPTERS": ",".join(items)} | settings
        return check_adapters(parsed_settings(**values), planned(model), client)

    return check_it


Check = Callable[..., list[AdapterCheck]]


def test_an_adapter_that_fits_is_a_finding_with_its_rank(check: Check, poet: Path) -> None:
    (result,) = check(f"poet={poet}")
    assert result.finding == Finding("adapter", f"poet={poet}", "rank 4, 4 modules of the model", True)
    assert result.num_values == 2 * 2 * 4 * (32 + 32), "layers, pairs, rank, inputs and outputs"
    assert not check()


def set_rank(folder: Path) -> None:
    tiny.edit(folder / CONFIG, r=9)


def make_infinite(folder: Path) -> None:
    values = load_file(folder / WEIGHTS)
    next(iter(values.values())).fill_(float("inf"))
    save_file(values, folder / WEIGHTS)


def rename_layer(folder: Path) -> None:
    values = {key.replace("layers.1", "layers.7"): each for key, each in load_file(folder / WEIGHTS).items()}
    save_file(values, folder / WEIGHTS)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (set_rank, "this model and r need [9, 32]"),
        (make_infinite, "has NaN or infinite values in "),
        (rename_layer, "layers.7.self_attn.o_proj, which this model does not have"),
        (lambda folder: (folder / WEIGHTS).unlink(), "has no adapter_model.safetensors"),
    ],
)
def test_a_refused_adapter_is_a_finding_with_the_reason(
    check: Check, poet: Path, spoil: Callable[[Path], object], reason: str
) -> None:
    spoil(poet)
    (result,) = check(f"poet={poet}")
    assert not result.finding.ok and reason in result.finding.have and result.finding.fix
    assert not result.num_values


@pytest.mark.parametrize("name", ["acme/tiny", "tiny", "chat"])
def test_the_name_of_the_model_is_refused(check: Check, poet: Path, name: str) -> None:
    (result,) = check(f"{name}={poet}", SERVED_NAMES="chat")
    assert not result.finding.ok and "is a name of the model" in result.finding.have


def test_a_folder_that_does_not_exist_is_refused(check: Check) -> None:
    assert "neither a folder nor owner/name" in check("poet=/nowhere/poet")[0].finding.have


def test_on_the_hub_the_config_and_the_header_alone_are_read(
    check: Check, poet: Path, fake: fake_hub.FakeHub
) -> None:
    fake.repos["acme/poet"] = fake_hub.Repo(poet)
    size = (poet / WEIGHTS).stat().st_size
    (result,) = check("acme/poet")
    assert result.finding.ok and result.finding.have.startswith("rank 4, 4 modules of the model, ")
    assert result.num_values
    assert 0 < sum(request.sent for request in fake.requests if WEIGHTS in request.what) < size / 2


def test_on_the_hub_an_adapter_is_refused_by_its_header(
    check: Check, poet: Path, fake: fake_hub.FakeHub
) -> None:
    set_rank(poet)
    fake.repos["acme/poet"] = fake_hub.Repo(poet)
    assert "need [9, 32]" in check("acme/poet")[0].finding.have


def test_an_adapter_that_the_hub_does_not_have_is_refused(check: Check, fake: fake_hub.FakeHub) -> None:
    assert check("acme/none")[0].finding.have == "no such model, or a private one"
    assert "OFFLINE is set" in check("acme/none", OFFLINE="true")[0].finding.have


def test_the_largest_adapters_that_are_in_memory_count() -> None:
    checks = [AdapterCheck(Finding("adapter", "", "", True), values) for values in (5, 30, 200)]
    assert num_resident_values(checks, 2) == 230


def test_the_plan_counts_adapters_and_weights(planned: Callable[..., Plan], machine: Machine) -> None:
    plan = planned(dtype="bfloat16")
    with_adapters = replan(plan, num_adapter_values=500_000_000)
    finding = check_ram(with_adapters, machine)
    assert finding and ", 1.0 GB of adapters, " in finding.need
    small = Machine(10**12, 2 * 10**9, (), frozenset({"cpu"}), "")
    before, after = plan_budget(plan, small), plan_budget(with_adapters, small)
    assert before.kv_memory_bytes >= after.kv_memory_bytes
    tight = Machine(10**12, 10**9, (), frozenset({"cpu"}), "")
    refused = check_ram(with_adapters, tight)
    assert refused and not refused.ok


def test_an_adapter_has_a_name_of_its_own_among_all_models() -> None:
    items = {"a": ("poet=/x", "b=/x", "cook=/x"), "b": ("poet=/y", "sailor=/y")}
    refusals = [(each.name, each.need, each.have) for each in check_distinct(items, {"a", "b"})]
    assert refusals == [
        ("a: adapter", "b=/x", "a model has its name"),
        ("b: adapter", "poet=/y", "an adapter of a has its name"),
    ]
