"""Looking at a model: on the Hub, in the cache, in a folder; and fetching exactly what loading needs."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import transformers

from checks.fetch import fetch
from checks.fetch.partial import Partial
from checks.fetch.plan import begun
from checks.finding import Finding, Refused
from checks.source.cache import Storage, write
from checks.source.hub import Hub
from checks.source.repository import Repository
from inference.model.load import load
from tests import hub, tiny
from tests.hub_faults import Flip

LookUp = Callable[..., Repository]


def refusal(look_up: LookUp, *args: str, **changes: object) -> Finding:
    with pytest.raises(Refused) as caught:
        look_up(*args, **changes)
    return caught.value.finding


def test_only_what_loading_reads_is_planned(tiny_repo: hub.Repo, look_up: LookUp) -> None:
    names = {file.name for file in look_up().files}
    assert names == {
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }


def test_looking_fetches_no_weights(fake: hub.Hub, tiny_repo: hub.Repo, look_up: LookUp) -> None:
    look_up()
    assert fake.sent < 20_000
    assert not [
        request for request in fake.requests if "safetensors" in request.what and "index" not in request.what
    ]


def test_what_is_fetched_is_what_was_planned(
    fake: hub.Hub, tiny_repo: hub.Repo, look_up: LookUp, client: Hub
) -> None:
    planned = look_up()
    fake.requests.clear()
    fetch(planned, client)
    fetched = sum(request.sent for request in fake.requests if "GET /acme/tiny/resolve" in request.what)
    assert fetched == planned.to_fetch


def test_a_fetched_model_loads_from_its_folder(tiny_repo: hub.Repo, look_up: LookUp, client: Hub) -> None:
    folder = fetch(look_up(), client)
    loaded = load(folder, dtype="float32", device="cpu", trust_remote_code=False)
    assert loaded.vocab == tiny.LLAMA["vocab_size"]


def test_a_second_look_finds_nothing_to_fetch(tiny_repo: hub.Repo, look_up: LookUp, client: Hub) -> None:
    fetch(look_up(), client)
    assert look_up().to_fetch == 0


def test_a_fetched_model_is_found_offline_without_a_request(
    fake: hub.Hub, tiny_repo: hub.Repo, look_up: LookUp, client: Hub
) -> None:
    folder = fetch(look_up(), client)
    fake.requests.clear()
    found = look_up(offline=True)
    assert (found.folder, found.commit, fake.requests) == (folder, tiny_repo.commit, [])


def test_a_fetched_model_is_found_when_the_hub_is_down(
    tiny_repo: hub.Repo, look_up: LookUp, client: Hub
) -> None:
    folder = fetch(look_up(), client)
    assert look_up(hub=replace(client, endpoint="http://127.0.0.1:9")).folder == folder


def test_offline_without_a_copy_is_refused(look_up: LookUp) -> None:
    assert "OFFLINE = False" in refusal(look_up, offline=True).mend


def test_a_folder_that_is_not_there_is_not_asked_of_the_hub(fake: hub.Hub, look_up: LookUp) -> None:
    assert refusal(look_up, "models/nothing").have == "no folder models/nothing"
    assert fake.requests == []


def test_a_folder_is_found_beside_main_py_from_anywhere(tmp_path: Path, look_up: LookUp) -> None:
    folder = tiny.llama(tmp_path / "home" / "models" / "own")
    assert look_up("models/own").folder == folder


@pytest.mark.parametrize("text", ["{", '{"a":' * 5000 + "1" + "}" * 5000, '{"a":' * 500 + "1" + "}" * 500])
def test_a_config_that_is_no_json_is_refused(tmp_path: Path, look_up: LookUp, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert "config.json is not JSON" in refusal(look_up, str(tmp_path)).have


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"weight_map":' * 5000, "index.json is not JSON"),
        ("{}", "does not say which file each weight is in"),
        ('{"weight_map": ["a"]}', "does not say which file each weight is in"),
        ('{"weight_map": {"a": 5}}', "does not say which file each weight is in"),
    ],
    ids=("deep", "empty", "list", "number"),
)
def test_an_index_that_names_no_files_is_refused(
    tmp_path: Path, look_up: LookUp, text: str, told: str
) -> None:
    folder = tiny.llama(tmp_path / "own")
    (folder / "model.safetensors.index.json").write_text(text)
    assert told in refusal(look_up, str(folder)).have


def test_the_index_names_the_weights(tmp_path: Path, look_up: LookUp) -> None:
    config = transformers.LlamaConfig(**tiny.LLAMA)
    folder = tiny.saved(tmp_path / "s", transformers.LlamaForCausalLM, config, max_shard_size="50KB")
    (folder / "model.safetensors").write_bytes(b"not named by the index")
    weights = [file.name for file in look_up(str(folder)).files if file.name.endswith(".safetensors")]
    assert len(weights) > 1 and "model.safetensors" not in weights


def test_a_models_own_code_is_fetched_only_where_it_may_run(tiny_repo: hub.Repo, look_up: LookUp) -> None:
    (tiny_repo.folder / "modeling.py").write_text("")
    assert "modeling.py" not in {file.name for file in look_up().files}
    assert "modeling.py" in {file.name for file in look_up(code=True).files}


def test_the_token_is_not_in_the_hubs_repr(client: Hub) -> None:
    assert "hf_secret" not in repr(replace(client, token="hf_secret"))


def test_a_small_file_that_always_comes_wrong_is_never_used(
    tiny_repo: hub.Repo, look_up: LookUp, client: Hub
) -> None:
    tiny_repo.faults["config.json"] = Flip()
    assert "sends other bytes of config.json" in refusal(look_up).have
    assert not list(client.cache.rglob("config.json"))


def test_files_of_one_content_are_fetched_once(tiny_repo: hub.Repo, look_up: LookUp, client: Hub) -> None:
    before = look_up().to_fetch
    (tiny_repo.folder / "a.json").write_text("{}" * 1000)
    (tiny_repo.folder / "b.json").write_text("{}" * 1000)
    assert look_up().to_fetch == before + 2000


def test_what_an_earlier_fetch_has_left_is_not_fetched_again(
    tiny_repo: hub.Repo, look_up: LookUp, client: Hub
) -> None:
    found = look_up()
    weights = next(file for file in found.files if file.name == "model.safetensors")
    partial = Partial(Storage(client.storage("acme/tiny")).blob(weights.etag), weights.size, piece=1000)
    with partial.writing(0) as pen:
        pen.write(bytes(700))
    assert begun(found, client).to_fetch == found.to_fetch - 700


@pytest.fixture
def theirs(tiny_repo: hub.Repo, client: Hub) -> Path:
    """acme/tiny in the cache as huggingface_hub leaves it, all of it noted."""
    storage = Storage(client.storage("acme/tiny"))
    folder = storage.snapshot(tiny_repo.commit)
    shutil.copytree(tiny_repo.folder, folder)
    entries = {name: tiny_repo.entry(name) for name in tiny_repo.names()}
    told = {name: {"size": entry["size"], "blob_id": entry["oid"]} for name, entry in entries.items()}
    write(storage.folder / "trees" / f"{tiny_repo.commit}.json", json.dumps({"files": told}))
    write(storage.folder / "refs" / "main", tiny_repo.commit)
    return folder


def test_what_huggingface_hub_fetched_needs_no_request(
    fake: hub.Hub, tiny_repo: hub.Repo, theirs: Path, look_up: LookUp
) -> None:
    found = look_up("acme/tiny", tiny_repo.commit)
    assert (found.folder, found.to_fetch, fake.requests) == (theirs, 0, [])


def test_what_huggingface_hub_did_not_fetch_is_named_offline(theirs: Path, look_up: LookUp) -> None:
    (theirs / "model.safetensors").unlink()
    (theirs / "tokenizer.json").unlink()
    missing = [file.name for file in look_up(offline=True).files if not file.here]
    assert missing == ["model.safetensors", "tokenizer.json"]


def test_a_file_that_has_lost_its_end_is_not_here(tiny_repo: hub.Repo, look_up: LookUp, client: Hub) -> None:
    folder = fetch(look_up(), client)
    (folder / "tokenizer.json").resolve().write_text("{")
    assert [file.name for file in look_up(offline=True).files if not file.here] == ["tokenizer.json"]
    assert [file.name for file in look_up("acme/tiny", tiny_repo.commit).wanted] == ["tokenizer.json"]
