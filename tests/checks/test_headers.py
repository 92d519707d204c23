"""Headers of weights, from the disk and from the Hub: exact, small, and never in the way of a start."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from checks import every
from checks.fetch import fetch
from checks.finding import Finding
from checks.heads.safetensors import with_headers
from checks.machine import Machine
from checks.plan import Plan
from checks.source.find import in_folder
from checks.source.hub import Hub
from checks.source.repository import Repository
from checks.source.tensors import Headers
from tests import hub, tiny
from tests.hub_faults import Flip, NoRanges

LookUp = Callable[..., Repository]
Planner = Callable[..., Plan]


def local(folder: Path, client: Hub) -> Repository:
    return with_headers(in_folder("tiny", folder, code=False), client)


def weights(plan: Plan, machine: Machine) -> Finding:
    return next(finding for finding in every.run(plan, machine) if finding.name == "weights")


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
    headers = with_headers(found, client).headers
    same = local(tiny_repo.folder, client).headers
    assert headers and same and headers.tensors and same.tensors
    assert headers.tensors.keys() == same.tensors.keys()
    begins = int.from_bytes((tiny_repo.folder / "model.safetensors").read_bytes()[:8], "little") + 8
    assert fake.sent == begins


def test_every_shards_header_is_read(fake: hub.Hub, tmp_path: Path, look_up: LookUp, client: Hub) -> None:
    config = transformers.LlamaConfig(**tiny.LLAMA)
    folder = tiny.saved(tmp_path / "s", transformers.LlamaForCausalLM, config, max_shard_size="50KB")
    fake.repos["acme/shards"] = hub.Repo(folder)
    headers = with_headers(look_up("acme/shards"), client).headers
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert headers and headers.tensors and headers.tensors.keys() == index["weight_map"].keys()


def test_a_server_that_sends_whole_files_is_cut_off(
    fake: hub.Hub, tiny_repo: hub.Repo, look_up: LookUp, client: Hub
) -> None:
    found = look_up()
    tiny_repo.faults["model.safetensors"] = NoRanges()
    headers = with_headers(found, client).headers
    assert headers == Headers(unread="the server sends whole files where a part is asked for")


def test_headers_that_cost_too_much_are_left(
    tiny_repo: hub.Repo, look_up: LookUp, client: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("checks.heads.safetensors.COST", 1000)
    headers = with_headers(look_up(), client).headers
    assert headers and headers.tensors is None and "too large" in headers.unread


def test_a_hub_that_has_gone_is_no_hindrance(
    tiny_repo: hub.Repo, look_up: LookUp, client: Hub, planned: Planner, machine: Machine
) -> None:
    found = with_headers(look_up(), replace(client, endpoint="http://127.0.0.1:9"))
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
    assert not finding.ok and finding.have == "model.safetensors: not as long as its header says"


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
    assert (
        headers
        and headers.tensors is None
        and headers.malformed
        and headers.damaged == ("model.safetensors",)
    )


def rewritten(path: Path, **entry: object) -> None:
    """The file with another entry for its first tensor in the header."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    told = json.loads(content[8:end])
    told["lm_head.weight"] |= entry
    header = json.dumps(told).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[end:])


@pytest.mark.parametrize(
    "entry",
    [
        {"shape": [-1, 2]},
        {"shape": [2**62, 2**62]},
        {"shape": [4, 32]},
        {"shape": "many"},
        {"dtype": ["F32"]},
        {"data_offsets": [0, 10**40]},
        {"data_offsets": [-5, -1]},
        {"data_offsets": [100, 0]},
        {"data_offsets": ["a", "b"]},
        {"data_offsets": None},
    ],
    ids=str,
)
def test_a_header_that_no_loader_would_take_is_refused(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine, entry: dict[str, object]
) -> None:
    rewritten(tiny.llama(tmp_path) / "model.safetensors", **entry)
    finding = weights(planned(local(tmp_path, client)), machine)
    assert not finding.ok and finding.have.startswith("model.safetensors: a header that is none")


def test_a_kind_of_values_that_is_new_is_no_hindrance(tmp_path: Path, client: Hub) -> None:
    rewritten(tiny.llama(tmp_path) / "model.safetensors", dtype="F4_NEW")
    headers = local(tmp_path, client).headers
    assert headers and headers.unread == "values of the kind 'F4_NEW'"


def test_the_note_of_git_in_a_files_place_is_told_as_one(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    note = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 80264\n"
    (tiny.llama(tmp_path) / "model.safetensors").write_text(note)
    finding = weights(planned(local(tmp_path, client)), machine)
    assert not finding.ok and finding.have.endswith("what git keeps in its place: git lfs pull")


def test_a_header_as_long_as_half_the_world_is_not_asked_for(
    fake: hub.Hub, tiny_repo: hub.Repo, look_up: LookUp, client: Hub
) -> None:
    path = tiny_repo.folder / "model.safetensors"
    path.write_bytes((2**26).to_bytes(8, "little") + path.read_bytes()[8:])
    found = look_up()
    fake.requests.clear()
    headers = with_headers(found, client).headers
    assert headers and "is longer than the file" in headers.malformed and fake.sent == 2 * 8


def test_headers_of_unlike_lengths_are_afforded_together(
    fake: hub.Hub, tmp_path: Path, look_up: LookUp, client: Hub
) -> None:
    config = transformers.LlamaConfig(**tiny.LLAMA)
    folder = tiny.saved(tmp_path / "s", transformers.LlamaForCausalLM, config, max_shard_size="50KB")
    last = sorted(folder.glob("*.safetensors"))[-1]
    last.write_bytes((399_000).to_bytes(8, "little") + bytes(10**6))
    fake.repos["acme/shards"] = hub.Repo(folder)
    found = look_up("acme/shards")
    fake.requests.clear()
    headers = with_headers(found, client).headers
    assert headers and "too large" in headers.unread and fake.sent == 8 * len(found.held)


def test_a_shard_that_only_the_index_knows_is_missed_before_the_download(
    fake: hub.Hub, tmp_path: Path, look_up: LookUp, client: Hub, planned: Planner, machine: Machine
) -> None:
    config = transformers.LlamaConfig(**tiny.LLAMA)
    folder = tiny.saved(tmp_path / "s", transformers.LlamaForCausalLM, config, max_shard_size="50KB")
    lost = sorted(folder.glob("*.safetensors"))[-1]
    lost.unlink()
    fake.repos["acme/shards"] = hub.Repo(folder)
    finding = weights(planned(with_headers(look_up("acme/shards"), client)), machine)
    assert not finding.ok and finding.mend.startswith(f"{lost.name} is missing: its authors")


def test_what_the_cache_has_is_not_asked_of_the_hub(
    fake: hub.Hub, tiny_repo: hub.Repo, look_up: LookUp, client: Hub
) -> None:
    fetch(look_up(), client)
    fake.requests.clear()
    headers = with_headers(look_up(), client).headers
    assert headers and headers.tensors and not fake.got("model.safetensors")


def test_a_file_that_the_disk_has_spoilt_is_named_with_its_place(
    tiny_repo: hub.Repo, look_up: LookUp, client: Hub, planned: Planner, machine: Machine
) -> None:
    blob = (fetch(look_up(), client) / "model.safetensors").resolve()
    blob.write_bytes(bytes(blob.stat().st_size))
    finding = weights(planned(with_headers(look_up(), client)), machine)
    assert not finding.ok and finding.mend.startswith(f"remove {blob}, and start again")


def test_a_header_that_was_spoilt_on_the_way_is_asked_for_again(
    tiny_repo: hub.Repo, look_up: LookUp, client: Hub
) -> None:
    found = look_up()
    tiny_repo.faults["model.safetensors"] = Flip(times=1)
    headers = with_headers(found, client).headers
    assert headers and headers.tensors
