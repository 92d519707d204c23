"""Looking up a model on the Hub, in the cache or in a folder, and fetching exactly what loading needs."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import transformers

from hub.cache import ModelCache, write_atomically
from hub.client import Hub
from hub.download import fetch
from hub.download.fetch import with_resumable_bytes
from hub.download.partial import PartialFile
from hub.weight_files import MAX_SMALL_BYTES, AllowedFiles
from inference.model.load.loader import load
from settings.groups import ModelSettings
from tests.fakes import fake_hub
from tests.fakes.fake_hub_faults import Flip
from tests.hub.look_ups import LookUp, refusal
from tests.tiny_models import tiny


def test_only_files_that_loading_reads_are_planned(tiny_repo: fake_hub.Repo, look_up: LookUp) -> None:
    names = {file.name for file in look_up().files}
    assert names == {
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }


def test_the_config_of_a_pooling_module_is_planned(tiny_repo: fake_hub.Repo, look_up: LookUp) -> None:
    for name in ("modules.json", "1_Pooling/config.json", "2_Dense/model.safetensors", "onnx/config.json"):
        (tiny_repo.folder / name).parent.mkdir(exist_ok=True)
        (tiny_repo.folder / name).write_text("{}")
    names = {file.name for file in look_up().files}
    assert {"modules.json", "1_Pooling/config.json"} <= names
    assert not {"2_Dense/model.safetensors", "onnx/config.json"} & names


def test_a_look_up_fetches_no_weights(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, look_up: LookUp
) -> None:
    look_up()
    assert fake.sent < 20_000
    assert not [
        request for request in fake.requests if "safetensors" in request.what and "index" not in request.what
    ]


def test_exactly_the_planned_bytes_are_fetched(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    planned = look_up()
    fake.requests.clear()
    fetch(planned, client)
    fetched = sum(request.sent for request in fake.requests if "GET /acme/tiny/resolve" in request.what)
    assert fetched == planned.bytes_to_fetch


def test_a_fetched_model_loads_from_its_folder(
    tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    folder = fetch(look_up(), client)
    loaded = load(folder, ModelSettings(dtype="float32", device="cpu"))
    assert loaded.vocab == tiny.LLAMA["vocab_size"]


def test_a_second_look_up_has_nothing_to_fetch(
    tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    fetch(look_up(), client)
    assert look_up().bytes_to_fetch == 0


def test_a_fetched_model_is_found_offline_without_a_request(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    folder = fetch(look_up(), client)
    fake.requests.clear()
    repository = look_up(offline=True)
    assert (repository.folder, repository.commit, fake.requests) == (folder, tiny_repo.commit, [])


def test_a_fetched_model_is_found_when_the_hub_is_down(
    tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    folder = fetch(look_up(), client)
    assert look_up(hub=replace(client, endpoint="http://127.0.0.1:9")).folder == folder


def test_offline_without_a_copy_is_refused(look_up: LookUp) -> None:
    assert "OFFLINE = False" in refusal(look_up, offline=True).fix


def test_a_missing_folder_is_not_requested_from_the_hub(fake: fake_hub.FakeHub, look_up: LookUp) -> None:
    assert refusal(look_up, "models/nothing").have == "no folder models/nothing"
    assert refusal(look_up, "/nothing/x.gguf").have == "no GGUF file /nothing/x.gguf"
    assert fake.requests == []


def test_a_relative_folder_is_found_from_the_folder_of_main_py(tmp_path: Path, look_up: LookUp) -> None:
    folder = tiny.llama(tmp_path / "home" / "models" / "own")
    assert look_up("models/own").folder == folder


@pytest.mark.system("posix")
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "chat_template.jinja", "deep/notes.txt"])
def test_what_may_never_end_is_refused_instead_of_read(tmp_path: Path, look_up: LookUp, name: str) -> None:
    folder = tiny.llama(tmp_path / "model")
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert refusal(look_up, str(folder)).have == f"{name} is a pipe, a socket or a device"
    path.unlink()
    path.symlink_to("/dev/zero")
    assert refusal(look_up, str(folder)).have == f"{name} is a pipe, a socket or a device"


def test_a_file_that_is_read_whole_has_a_limit(tmp_path: Path, look_up: LookUp) -> None:
    folder = tiny.llama(tmp_path / "model")
    for name in ("tokenizer.json", "records.json"):
        with (folder / name).open("wb") as file:
            file.truncate(MAX_SMALL_BYTES + 1)  # without blocks on the disk
    assert refusal(look_up, str(folder)).need == "tokenizer.json of at most 256.0 MB"
    (folder / "tokenizer.json").unlink()
    assert "records.json" in look_up(str(folder)).names, "nothing reads it"


@pytest.mark.parametrize("text", ["{", '{"a":' * 5000 + "1" + "}" * 5000, '{"a":' * 500 + "1" + "}" * 500])
def test_a_config_that_is_not_json_is_refused(tmp_path: Path, look_up: LookUp, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert "config.json is not JSON" in refusal(look_up, str(tmp_path)).have


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"weight_map":' * 5000, "index.json is not JSON"),
        ("{}", "does not say which file each weight is in"),
        ('{"weight_map": ["a"]}', "does not say which file each weight is in"),
        ('{"weight_map": {"a": 5}}', "does not say which file each weight is in"),
    ],
    ids=("deep", "empty", "list", "number"),
)
def test_an_index_that_names_no_files_is_refused(
    tmp_path: Path, look_up: LookUp, text: str, message: str
) -> None:
    folder = tiny.llama(tmp_path / "own")
    (folder / "model.safetensors.index.json").write_text(text)
    assert message in refusal(look_up, str(folder)).have


def test_the_index_names_the_weights(tmp_path: Path, look_up: LookUp) -> None:
    config = transformers.LlamaConfig(**tiny.LLAMA)
    folder = tiny.save_model(tmp_path / "s", transformers.LlamaForCausalLM, config, max_shard_size="50KB")
    (folder / "model.safetensors").write_bytes(b"not named by the index")
    weights = [file.name for file in look_up(str(folder)).files if file.name.endswith(".safetensors")]
    assert len(weights) > 1 and "model.safetensors" not in weights


def test_a_models_own_code_is_fetched_only_if_it_may_run(tiny_repo: fake_hub.Repo, look_up: LookUp) -> None:
    (tiny_repo.folder / "modeling.py").write_text("")
    assert "modeling.py" not in {file.name for file in look_up().files}
    assert "modeling.py" in {
        file.name for file in look_up(allowed=AllowedFiles(trust_remote_code=True)).files
    }


def test_the_token_is_not_in_the_hubs_repr(client: Hub) -> None:
    assert "hf_secret" not in repr(replace(client, token="hf_secret"))


def test_a_small_file_that_is_always_corrupt_is_never_used(
    tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    tiny_repo.faults["config.json"] = Flip()
    assert "sent config.json with the wrong hash" in refusal(look_up).have
    assert not list(client.cache_dir.rglob("config.json"))


def test_files_with_the_same_content_are_fetched_once(
    tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    before = look_up().bytes_to_fetch
    (tiny_repo.folder / "a.json").write_text("{}" * 1000)
    (tiny_repo.folder / "b.json").write_text("{}" * 1000)
    assert look_up().bytes_to_fetch == before + 2000


def test_bytes_of_an_earlier_fetch_are_not_fetched_again(
    tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    repository = look_up()
    weights = next(file for file in repository.files if file.name == "model.safetensors")
    partial = PartialFile(
        ModelCache(client.model_folder("acme/tiny")).blob(weights.etag), weights.size, piece_bytes=1000
    )
    with partial.open_writer(0) as writer:
        writer.write(bytes(700))
    assert with_resumable_bytes(repository, client).bytes_to_fetch == repository.bytes_to_fetch - 700


@pytest.fixture
def hub_snapshot(tiny_repo: fake_hub.Repo, client: Hub) -> Path:
    """acme/tiny in the cache as huggingface_hub leaves it, with the list of all its files."""
    storage = ModelCache(client.model_folder("acme/tiny"))
    folder = storage.snapshot(tiny_repo.commit)
    shutil.copytree(tiny_repo.folder, folder)
    entries = {name: tiny_repo.entry(name) for name in tiny_repo.names()}
    files = {name: {"size": entry["size"], "blob_id": entry["oid"]} for name, entry in entries.items()}
    write_atomically(storage.folder / "trees" / f"{tiny_repo.commit}.json", json.dumps({"files": files}))
    write_atomically(storage.folder / "refs" / "main", tiny_repo.commit)
    return folder


def test_a_snapshot_of_huggingface_hub_needs_no_request(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, hub_snapshot: Path, look_up: LookUp
) -> None:
    repository = look_up("acme/tiny", tiny_repo.commit)
    assert (repository.folder, repository.bytes_to_fetch, fake.requests) == (hub_snapshot, 0, [])


def test_files_that_huggingface_hub_did_not_fetch_are_named_offline(
    hub_snapshot: Path, look_up: LookUp
) -> None:
    (hub_snapshot / "model.safetensors").unlink()
    (hub_snapshot / "tokenizer.json").unlink()
    missing = [file.name for file in look_up(offline=True).files if not file.is_local]
    assert missing == ["model.safetensors", "tokenizer.json"]


def test_a_truncated_file_counts_as_missing(tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub) -> None:
    folder = fetch(look_up(), client)
    (folder / "tokenizer.json").resolve().write_text("{")
    assert [file.name for file in look_up(offline=True).files if not file.is_local] == ["tokenizer.json"]
    assert [file.name for file in look_up("acme/tiny", tiny_repo.commit).files_to_fetch] == ["tokenizer.json"]
