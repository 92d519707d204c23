"""Weight headers, from the disk and from the Hub: exact, small, and never a reason not to start."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from checks import preflight
from checks.machine import Machine
from checks.memory.plan import Plan
from hub.client import Hub
from hub.download import fetch
from hub.repository import Repository
from hub.resolve import from_folder
from hub.tensors import WeightHeaders
from hub.weight_headers.safetensors import with_headers
from inference.finding import Finding
from tests.fakes import fake_hub
from tests.fakes.fake_hub_faults import Flip, IgnoredRanges
from tests.tiny_models import tiny

LookUp = Callable[..., Repository]
Planner = Callable[..., Plan]


def local(folder: Path, client: Hub) -> Repository:
    return with_headers(from_folder("tiny", folder), client)


def weights(plan: Plan, machine: Machine) -> Finding:
    return next(finding for finding in preflight.run_checks(plan, machine) if finding.name == "weights")


def write_changed_weights(folder: Path, **tensors: torch.Tensor | None) -> Path:
    """A tiny Llama whose file has other tensors for these names (with _ for each dot), or lacks those that
    are None.
    """
    path = tiny.llama(folder) / "model.safetensors"
    contents = load_file(path)
    for name in list(contents):
        if name.replace(".", "_") in tensors:
            tensor = tensors[name.replace(".", "_")]
            contents = {key: value for key, value in contents.items() if key != name}
            contents |= {} if tensor is None else {name: tensor}
    save_file(contents, path, metadata={"format": "pt"})
    return folder


def test_headers_are_read_from_the_disk(tmp_path: Path, client: Hub) -> None:
    headers = local(tiny.llama(tmp_path), client).headers
    assert headers and headers.tensors and not headers.damaged_files
    tensors = load_file(tmp_path / "model.safetensors")
    shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in headers.tensors.items()}
    assert shapes == {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


def test_the_hub_gives_the_same_headers_and_sends_no_weights(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    repository = look_up()
    fake.requests.clear()
    headers = with_headers(repository, client).headers
    same = local(tiny_repo.folder, client).headers
    assert headers and same and headers.tensors and same.tensors
    assert headers.tensors.keys() == same.tensors.keys()
    begins = int.from_bytes((tiny_repo.folder / "model.safetensors").read_bytes()[:8], "little") + 8
    assert fake.sent == begins


def test_every_shards_header_is_read(
    fake: fake_hub.FakeHub, tmp_path: Path, look_up: LookUp, client: Hub
) -> None:
    config = transformers.LlamaConfig(**tiny.LLAMA)
    folder = tiny.save_model(tmp_path / "s", transformers.LlamaForCausalLM, config, max_shard_size="50KB")
    fake.repos["acme/shards"] = fake_hub.Repo(folder)
    headers = with_headers(look_up("acme/shards"), client).headers
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert headers and headers.tensors and headers.tensors.keys() == index["weight_map"].keys()


def test_a_server_that_sends_whole_files_is_disconnected(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    repository = look_up()
    tiny_repo.faults["model.safetensors"] = IgnoredRanges()
    headers = with_headers(repository, client).headers
    assert headers == WeightHeaders(unavailable_reason="the server does not support range requests")


def test_headers_that_are_too_large_are_not_read(
    tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.weight_headers.safetensors.MAX_BYTES", 1000)
    headers = with_headers(look_up(), client).headers
    assert headers and headers.tensors is None and "too large" in headers.unavailable_reason


def test_an_unreachable_hub_does_not_fail_the_check(
    tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub, planned: Planner, machine: Machine
) -> None:
    repository = with_headers(look_up(), replace(client, endpoint="http://127.0.0.1:9"))
    finding = weights(planned(repository), machine)
    assert finding.ok and "headers not read: http://127.0.0.1:9 does not answer" in finding.have


def test_a_missing_weight_is_found_before_the_download(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    folder = write_changed_weights(tmp_path, model_norm_weight=None)
    finding = weights(planned(local(folder, client)), machine)
    assert not finding.ok and finding.have == "1 missing tensor, such as model.norm.weight"


def test_a_weight_of_the_wrong_shape_is_found_before_the_download(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    folder = write_changed_weights(tmp_path, model_norm_weight=torch.zeros(7))
    finding = weights(planned(local(folder, client)), machine)
    assert (
        not finding.ok
        and finding.have == "1 tensor of the wrong shape, such as model.norm.weight: 7 instead of 32"
    )


def test_a_truncated_file_is_named(tmp_path: Path, client: Hub, planned: Planner, machine: Machine) -> None:
    path = tiny.llama(tmp_path) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    finding = weights(planned(local(tmp_path, client)), machine)
    assert not finding.ok and finding.have == "model.safetensors: its length differs from its header"


def test_the_dtype_of_the_files_takes_precedence_over_config_json(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    folder = tiny.llama(tmp_path)
    tiny.edit(folder / "config.json", dtype="float16")
    plan = planned(local(folder, client), dtype="stored")
    assert plan.model_size and (plan.model_size.dtype, plan.model_size.stored_dtype) == (
        "bfloat16",
        "bfloat16",
    )
    assert weights(plan, machine).have == "1 file of bfloat16, although config.json says float16"


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
def test_an_invalid_header_is_reported(tmp_path: Path, client: Hub, content: bytes) -> None:
    (tiny.llama(tmp_path) / "model.safetensors").write_bytes(content)
    headers = local(tmp_path, client).headers
    assert (
        headers
        and headers.tensors is None
        and headers.malformed_reason
        and headers.damaged_files == ("model.safetensors",)
    )


def rewrite_header(path: Path, **entry: object) -> None:
    """Rewrites the header's entry for lm_head.weight."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    entries = json.loads(content[8:end])
    entries["lm_head.weight"] |= entry
    header = json.dumps(entries).encode()
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
def test_a_header_that_no_loader_accepts_is_refused(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine, entry: dict[str, object]
) -> None:
    rewrite_header(tiny.llama(tmp_path) / "model.safetensors", **entry)
    finding = weights(planned(local(tmp_path, client)), machine)
    assert not finding.ok and finding.have.startswith("model.safetensors: an invalid safetensors header")


def test_an_unknown_dtype_makes_the_headers_unavailable(tmp_path: Path, client: Hub) -> None:
    rewrite_header(tiny.llama(tmp_path) / "model.safetensors", dtype="F4_NEW")
    headers = local(tmp_path, client).headers
    assert headers and headers.unavailable_reason == "an unknown dtype, 'F4_NEW'"


def test_a_git_lfs_pointer_in_place_of_a_file_is_recognized(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    note = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 80264\n"
    (tiny.llama(tmp_path) / "model.safetensors").write_text(note)
    finding = weights(planned(local(tmp_path, client)), machine)
    assert not finding.ok and finding.have.endswith(
        "a git-lfs pointer instead of the weights: run git lfs pull"
    )


def test_an_absurdly_long_header_is_not_requested(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    path = tiny_repo.folder / "model.safetensors"
    path.write_bytes((2**26).to_bytes(8, "little") + path.read_bytes()[8:])
    repository = look_up()
    fake.requests.clear()
    headers = with_headers(repository, client).headers
    assert headers and "is longer than the file" in headers.malformed_reason and fake.sent == 2 * 8


def test_headers_of_all_shards_share_one_size_limit(
    fake: fake_hub.FakeHub, tmp_path: Path, look_up: LookUp, client: Hub
) -> None:
    config = transformers.LlamaConfig(**tiny.LLAMA)
    folder = tiny.save_model(tmp_path / "s", transformers.LlamaForCausalLM, config, max_shard_size="50KB")
    last = sorted(folder.glob("*.safetensors"))[-1]
    last.write_bytes((399_000).to_bytes(8, "little") + bytes(10**6))
    fake.repos["acme/shards"] = fake_hub.Repo(folder)
    repository = look_up("acme/shards")
    fake.requests.clear()
    headers = with_headers(repository, client).headers
    assert (
        headers
        and "too large" in headers.unavailable_reason
        and fake.sent == 8 * len(repository.weight_files)
    )


def test_a_shard_that_only_the_index_knows_is_missed_before_the_download(
    fake: fake_hub.FakeHub, tmp_path: Path, look_up: LookUp, client: Hub, planned: Planner, machine: Machine
) -> None:
    config = transformers.LlamaConfig(**tiny.LLAMA)
    folder = tiny.save_model(tmp_path / "s", transformers.LlamaForCausalLM, config, max_shard_size="50KB")
    lost = sorted(folder.glob("*.safetensors"))[-1]
    lost.unlink()
    fake.repos["acme/shards"] = fake_hub.Repo(folder)
    finding = weights(planned(with_headers(look_up("acme/shards"), client)), machine)
    assert not finding.ok and finding.fix.startswith(
        f"{lost.name} is missing: the repository itself is incomplete"
    )


def test_cached_headers_are_not_requested_from_the_hub(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    fetch(look_up(), client)
    fake.requests.clear()
    headers = with_headers(look_up(), client).headers
    assert headers and headers.tensors and not fake.gets_of("model.safetensors")


def test_a_file_damaged_on_the_disk_is_named_with_its_path(
    tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub, planned: Planner, machine: Machine
) -> None:
    blob = (fetch(look_up(), client) / "model.safetensors").resolve()
    blob.write_bytes(bytes(blob.stat().st_size))
    finding = weights(planned(with_headers(look_up(), client)), machine)
    assert not finding.ok and finding.fix.startswith(f"remove {blob}, and start again")


def test_a_header_damaged_in_transit_is_requested_again(
    tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    repository = look_up()
    tiny_repo.faults["model.safetensors"] = Flip(times=1)
    headers = with_headers(repository, client).headers
    assert headers and headers.tensors
