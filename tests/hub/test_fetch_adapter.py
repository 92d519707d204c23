"""An adapter is fetched from the Hub: two files, once, and from then on it is in the cache."""

from pathlib import Path
from typing import Any

import pytest

from hub.client import Hub
from hub.fetch_adapter import fetch_adapter, split_source
from inference.finding import Finding, Refused
from tests.fakes import fake_hub

FILES = {
    "adapter_config.json": b'{"peft_type": "LORA"}',
    "adapter_model.safetensors": bytes(5000),
    "adapter_model.bin": bytes(700),
    "README.md": b"# A poet",
}


@pytest.fixture
def repo(fake: fake_hub.FakeHub, tmp_path: Path) -> fake_hub.Repo:
    folder = tmp_path / "poet"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    fake.repos["acme/poet"] = fake_hub.Repo(folder, tags=("v1",))
    return fake.repos["acme/poet"]


def refusal(client: Hub, name: str = "acme/poet", revision: str = "main", **options: Any) -> Finding:
    with pytest.raises(Refused) as caught:
        fetch_adapter(client, name, revision, **({"offline": False} | options))
    return caught.value.finding


@pytest.mark.parametrize("revision", ["main", "v1"])
def test_the_config_and_the_weights_are_fetched(repo: fake_hub.Repo, client: Hub, revision: str) -> None:
    folder = fetch_adapter(client, "acme/poet", revision, offline=False)
    assert sorted(path.name for path in folder.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    for path in folder.iterdir():
        assert path.read_bytes() == FILES[path.name]


def test_a_complete_adapter_needs_no_request(
    repo: fake_hub.Repo, client: Hub, fake: fake_hub.FakeHub
) -> None:
    folder = fetch_adapter(client, "acme/poet", "main", offline=False)
    fake.requests.clear()
    assert fetch_adapter(client, "acme/poet", "main", offline=True) == folder
    assert fetch_adapter(client, "acme/poet", "main", offline=False) == folder
    assert not fake.requests


def test_offline_nothing_is_requested(repo: fake_hub.Repo, client: Hub, fake: fake_hub.FakeHub) -> None:
    assert refusal(client, offline=True).have == "OFFLINE is set, and the cache has no copy"
    assert not fake.requests


def test_what_is_no_adapter_is_refused_before_it_is_fetched(
    repo: fake_hub.Repo, client: Hub, fake: fake_hub.FakeHub
) -> None:
    (repo.folder / "adapter_model.safetensors").unlink()
    finding = refusal(client)
    assert (finding.need, finding.have) == ("adapter_model.safetensors", "acme/poet has none")
    assert not [request for request in fake.requests if "/resolve/" in request.what]
    assert refusal(client, "acme/none").have == "no such model, or a private one"
    assert refusal(client, revision="v9").have == "no such version"


def test_a_claim_of_many_bytes_is_refused_before_it_is_fetched(
    repo: fake_hub.Repo, client: Hub, fake: fake_hub.FakeHub
) -> None:
    siblings = [
        {"rfilename": name, "size": 10**11, "blobId": "0" * 40}
        for name in ("adapter_config.json", "adapter_model.safetensors")
    ]
    repo.info_overrides["siblings"] = siblings
    finding = refusal(client)
    assert (finding.need, finding.have) == ("adapter_config.json of at most 1.0 MB", "100.0 GB")
    siblings[0]["size"] = 20
    assert refusal(client).need == "adapter_model.safetensors of at most 8.0 GB"
    assert not [request for request in fake.requests if "/resolve/" in request.what]


@pytest.mark.parametrize(
    ("source", "name_and_revision"),
    [
        ("acme/poet", ("acme/poet", "main")),
        ("acme/poet@v1", ("acme/poet", "v1")),
        ("acme/poet@refs/pr/1", ("acme/poet", "refs/pr/1")),
    ],
)
def test_a_source_on_the_hub_has_a_name_and_a_revision(
    source: str, name_and_revision: tuple[str, str]
) -> None:
    assert split_source(source) == name_and_revision


@pytest.mark.parametrize(
    "source",
    [
        "poet", "/acme/poet", "acme/poet/x", "../poet", "acme/..", "acme/poet@", "acme/poet@../../x",
        "acme/poet@a/../b", "http://host/x", "acme/poet@v1@v2", "acme\\poet", "acme/poet\n", "~/x",
        "acme/po et", "a" * 97 + "/x", "datasets/acme/x",
    ],
)  # fmt: skip
def test_other_texts_are_no_source_on_the_hub(source: str) -> None:
    assert split_source(source) is None
