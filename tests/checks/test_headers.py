"""Headers of weights, from the disk and from the Hub: exact, small, and never in the way of a start."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import checks
from checks.finding import Finding
from checks.headers import headed
from checks.machine import Machine
from checks.plan import Plan
from checks.source.hub import Hub
from checks.source.repository import Repository, in_folder
from checks.source.tensors import Headers
from tests import hub, tiny
from tests.hub_faults import NoRanges

LookUp = Callable[..., Repository]
Planner = Callable[..., Plan]


def local(folder: Path, client: Hub) -> Repository:
    return headed(in_folder("tiny", folder, code=False), client)


def weights(plan: Plan, machine: Machine) -> Finding:
    return next(finding for finding in checks.run(plan, machine) if finding.name == "weights")


def changed(folder: Path, **tensors: torch.Tensor | None) -> Path:
    """A tiny Llama whose file has other tensors under these names, with _ for each dot, or lacks them."""
    path = tiny.llama(folder) / "model.safetensors"
    held = load_file(path)
    for name in list(held):
        if name.replace(".", "_") in tensors:
            tensor = tensors[name.replace(".", "_")]
            held = {key: value for key, value in held.items() if key != name}
            held |= {} if tensor is None else {name: tensor}
    save_file(held, path, metadata={"format": "pt"})
    return folder


def test_what_a_file_holds_is_read_from_the_disk(tmp_path: Path, client: Hub) -> None:
    headers = local(tiny.llama(tmp_path), client).headers
    assert headers and headers.tensors and not headers.damaged
    held = load_file(tmp_path / "model.safetensors")
    told = {name: (tensor.shape, tensor.dtype) for name, tensor in headers.tensors.items()}
    assert told == {name: (tensor.shape, tensor.dtype) for name, tensor in held.items()}


def test_the_hub_tells_the_same_and_sends_no_weights(
    fake: hub.Hub, tiny_repo: hub.Repo, look_up: LookUp, client: Hub
) -> None:
    found = look_up()
    fake.requests.clear()
    headers = headed(found, client).headers
    same = local(tiny_repo.folder, client).headers
    assert headers and same and headers.tensors and same.tensors
    assert headers.tensors.keys() == same.tensors.keys()
    begins = int.from_bytes((tiny_repo.folder / "model.safetensors").read_bytes()[:8], "little") + 8
    assert fake.sent == begins


def test_every_shards_header_is_read(fake: hub.Hub, tmp_path: Path, look_up: LookUp, client: Hub) -> None:
    config = transformers.LlamaConfig(**tiny.LLAMA)
    folder = tiny.saved(tmp_path / "s", transformers.LlamaForCausalLM, config, max_shard_size="50KB")
    fake.repos["acme/shards"] = hub.Repo(folder)
    headers = headed(look_up("acme/shards"), client).headers
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert headers and headers.tensors and headers.tensors.keys() == index["weight_map"].keys()


def test_a_server_that_sends_whole_files_is_cut_off(
    fake: hub.Hub, tiny_repo: hub.Repo, look_up: LookUp, client: Hub
) -> None:
    found = look_up()
    tiny_repo.faults["model.safetensors"] = NoRanges()
    headers = headed(found, client).headers
    assert headers == Headers(unread="the server sends whole files where a part is asked for")


def test_headers_that_cost_too_much_are_left(
    tiny_repo: hub.Repo, look_up: LookUp, client: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("checks.headers.COST", 1000)
    headers = headed(look_up(), client).headers
    assert headers and headers.tensors is None and "too large" in headers.unread


def test_a_hub_that_has_gone_is_no_hindrance(
    tiny_repo: hub.Repo, look_up: LookUp, client: Hub, planned: Planner, machine: Machine
) -> None:
    found = headed(look_up(), replace(client, endpoint="http://127.0.0.1:9"))
    finding = weights(planned(found), machine)
    assert finding.ok and "not looked into: http://127.0.0.1:9 does not answer" in finding.have


def test_a_missing_weight_is_found_before_the_download(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    folder = changed(tmp_path, model_norm_weight=None)
    finding = weights(planned(local(folder, client)), machine)
    assert not finding.ok and finding.have == "1 are missing, such as model.norm.weight"


def test_a_weight_of_another_shape_is_found_before_the_download(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    folder = changed(tmp_path, model_norm_weight=torch.zeros(7))
    finding = weights(planned(local(folder, client)), machine)
    assert not finding.ok and finding.have == "1 of another shape, such as model.norm.weight: 7 for 32"


def test_a_file_that_is_cut_off_is_named(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    path = tiny.llama(tmp_path) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    finding = weights(planned(local(tmp_path, client)), machine)
    assert not finding.ok and finding.have == "model.safetensors, not as long as its header says"


def test_the_files_know_their_dtype_better_than_config_json(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    folder = tiny.llama(tmp_path)
    tiny.edit(folder / "config.json", dtype="float16")
    plan = planned(local(folder, client), dtype="stored")
    assert plan.measure and (plan.measure.dtype, plan.measure.stored) == ("bfloat16", "bfloat16")
    assert weights(plan, machine).have == "1 file of bfloat16, whatever config.json says of float16"


DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not safetensors at all",
        (20).to_bytes(8, "little") + b"{" * 20,
        len(DEEP).to_bytes(8, "little") + DEEP,
    ],
)
def test_what_is_no_header_is_told(tmp_path: Path, client: Hub, content: bytes) -> None:
    (tiny.llama(tmp_path) / "model.safetensors").write_bytes(content)
    headers = local(tmp_path, client).headers
    assert headers and headers.tensors is None and headers.unread
