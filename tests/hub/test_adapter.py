"""An adapter given as the model is called one, with its base model and what to do."""

import json
from pathlib import Path

import pytest

from hub.resolve import from_folder
from inference.finding import Refused
from tests.fakes import fake_hub
from tests.hub.look_ups import LookUp, refusal
from tests.tiny_models import tiny

CONFIG = {"base_model_name_or_path": "acme/base", "peft_type": "LORA"}


def write_adapter(folder: Path, **config: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG | config))
    for name in ("adapter_model.safetensors", "training_args.bin", "optimizer.pt"):
        (folder / name).write_bytes(bytes(9))
    return folder


@pytest.mark.parametrize("has_config", [False, True])
def test_a_folder_with_an_adapter_alone_is_refused(tmp_path: Path, has_config: bool) -> None:
    folder = write_adapter(tmp_path)
    if has_config:
        (folder / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(Refused) as caught:
        from_folder("mine", folder)
    finding = caught.value.finding
    assert finding.have == "an adapter (LORA) of acme/base, without the model itself"
    assert finding.fix == 'MODEL_NAME = "acme/base", and LORA_ADAPTERS = "mine" beside it'


def test_an_adapter_of_another_kind_is_to_be_merged(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        from_folder("mine", write_adapter(tmp_path, peft_type="IA3"))
    finding = caught.value.finding
    assert finding.have == "an adapter (IA3) of acme/base, without the model itself"
    assert finding.fix.startswith(
        'MODEL_NAME = "acme/base" serves the base model; to serve the adapter, merge'
    )


def test_an_adapter_on_the_hub_is_refused(fake: fake_hub.FakeHub, tmp_path: Path, look_up: LookUp) -> None:
    fake.repos["acme/adapter"] = fake_hub.Repo(write_adapter(tmp_path / "adapter"))
    assert refusal(look_up, "acme/adapter").have.startswith("an adapter (LORA) of acme/base")


@pytest.mark.parametrize("base", [None, "", 7])
def test_an_adapter_without_a_base_is_still_called_one(tmp_path: Path, base: object) -> None:
    with pytest.raises(Refused) as caught:
        from_folder("mine", write_adapter(tmp_path, base_model_name_or_path=base))
    assert caught.value.finding.have == "an adapter (LORA) of its base model, without the model itself"
    fix = 'set MODEL_NAME to its base model, and LORA_ADAPTERS = "mine" beside it'
    assert caught.value.finding.fix == fix


def test_a_model_with_an_adapter_in_its_folder_is_a_model(tmp_path: Path) -> None:
    folder = write_adapter(tiny.llama(tmp_path))
    assert from_folder("mine", folder).weight_files
