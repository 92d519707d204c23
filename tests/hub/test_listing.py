"""The Hub's answers about a model are validated."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hub import small_files
from hub.repository import Repository, is_inside_folder
from inference.finding import Refused
from tests.fakes import fake_hub

LookUp = Callable[..., Repository]
HASH = "0" * 40


def refusal(look_up: LookUp) -> str:
    with pytest.raises(Refused) as refused:
        look_up()
    return refused.value.finding.have


@pytest.mark.parametrize(
    "payload",
    [
        {"sha": None},
        {"sha": "main"},
        {"sha": "../../elsewhere"},
        {"siblings": "config.json"},
        {"siblings": [None]},
        {"siblings": [{}]},
        {"siblings": [{"rfilename": None}]},
        {"siblings": [{"rfilename": "config.json", "blobId": HASH}]},
        {"siblings": [{"rfilename": "config.json", "blobId": HASH, "size": "12"}]},
        {"siblings": [{"rfilename": "config.json", "blobId": HASH, "size": -5}]},
        {"siblings": [{"rfilename": "config.json", "blobId": 3, "size": 5}]},
        {"siblings": [{"rfilename": "config.json", "blobId": HASH, "size": 5, "lfs": {"sha256": "x"}}]},
    ],
    ids=str,
)
def test_an_invalid_listing_is_refused(
    tiny_repo: fake_hub.Repo, look_up: LookUp, payload: dict[str, Any]
) -> None:
    tiny_repo.info_overrides = payload
    assert "sent an invalid response: " in refusal(look_up)


@pytest.mark.parametrize(
    "name", ["../../elsewhere.json", "additional_chat_templates/../../../e.jinja", "/e.json"]
)
def test_file_names_outside_of_the_model_are_refused(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, look_up: LookUp, tmp_path: Path, name: str
) -> None:
    tiny_repo.info_overrides = {"siblings": [{"rfilename": name, "blobId": HASH, "size": 5}]}
    assert repr(name) in refusal(look_up)
    assert [request.what for request in fake.requests if "resolve" in request.what] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("config.json", True),
        ("a folder/ü.json", True),
        ("..config.json", True),
        ("..", False),
        ("", False),
        ("a\0b", False),
    ],
)
def test_names_inside_of_the_folder_are_recognized(name: str, expected: bool) -> None:
    assert is_inside_folder(name) is expected


@pytest.mark.parametrize("name", ["..\\..\\evil.json", "\\evil.json", "C:evil.json", "a.json:stream"])
def test_no_name_leads_out_of_a_folder_of_windows(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert is_inside_folder(name)
    monkeypatch.setattr(sys, "platform", "win32")
    assert not is_inside_folder(name)
    assert is_inside_folder("a folder/config.json")


@pytest.mark.parametrize("card", ["nothing", 3, {"license": "mit", "eval_results": 3}])
def test_an_invalid_card_is_ignored(tiny_repo: fake_hub.Repo, look_up: LookUp, card: Any) -> None:
    tiny_repo.info_overrides = {"cardData": card}
    assert look_up().licence in ("", "mit")


def test_the_licence_may_be_named_by_a_tag_alone(tiny_repo: fake_hub.Repo, look_up: LookUp) -> None:
    tiny_repo.info_overrides = {"tags": ["text-generation", "license:apache-2.0"]}
    assert look_up().licence == "apache-2.0"


def test_a_config_that_is_too_large_is_not_fetched(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, look_up: LookUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_files, "MAX_BYTES", 100)
    assert refusal(look_up).startswith("an invalid config.json: it has ")
    assert fake.gets_of("config.json") == []


def test_bytes_beyond_the_announced_size_are_not_read(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, look_up: LookUp
) -> None:
    (tiny_repo.folder / "chat_template.jinja").write_bytes(b"x" * 50_000_000)
    announced = {"rfilename": "chat_template.jinja", "blobId": HASH, "size": 5}
    config = {
        "rfilename": "config.json",
        **tiny_repo.entry("config.json"),
        "blobId": tiny_repo.entry("config.json")["oid"],
    }
    tiny_repo.info_overrides = {"siblings": [config, announced]}
    assert "sent chat_template.jinja with the wrong hash" in refusal(look_up)
