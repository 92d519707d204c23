"""What the Hub tells of a model is looked at before it is believed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.finding import Refused
from checks.source import glance
from checks.source.file import lies_within
from checks.source.repository import Repository
from tests import hub

LookUp = Callable[..., Repository]
HASH = "0" * 40


def refusal(look_up: LookUp) -> str:
    with pytest.raises(Refused) as refused:
        look_up()
    return refused.value.finding.have


@pytest.mark.parametrize(
    "told",
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
def test_what_no_hub_would_tell_is_not_believed(
    tiny_repo: hub.Repo, look_up: LookUp, told: dict[str, Any]
) -> None:
    tiny_repo.told = told
    assert "answers as no Hub does: " in refusal(look_up)


@pytest.mark.parametrize(
    "name", ["../../elsewhere.json", "additional_chat_templates/../../../e.jinja", "/e.json"]
)
def test_no_file_lies_outside_of_its_model(
    fake: hub.Hub, tiny_repo: hub.Repo, look_up: LookUp, tmp_path: Path, name: str
) -> None:
    tiny_repo.told = {"siblings": [{"rfilename": name, "blobId": HASH, "size": 5}]}
    assert repr(name) in refusal(look_up)
    assert [request.what for request in fake.requests if "resolve" in request.what] == []


@pytest.mark.parametrize(
    ("name", "within"),
    [
        ("config.json", True),
        ("a folder/ü.json", True),
        ("..config.json", True),
        ("..", False),
        ("", False),
        ("a\0b", False),
    ],
)
def test_where_a_name_lies(name: str, within: bool) -> None:
    assert lies_within(name) is within


@pytest.mark.parametrize("card", ["nothing", 3, {"license": "mit", "eval_results": 3}])
def test_a_card_that_makes_no_sense_is_no_hindrance(tiny_repo: hub.Repo, look_up: LookUp, card: Any) -> None:
    tiny_repo.told = {"cardData": card}
    assert look_up().licence in ("", "mit")


def test_the_licence_may_be_told_by_a_tag_alone(tiny_repo: hub.Repo, look_up: LookUp) -> None:
    tiny_repo.told = {"tags": ["text-generation", "license:apache-2.0"]}
    assert look_up().licence == "apache-2.0"


def test_a_config_that_costs_too_much_is_not_fetched(
    fake: hub.Hub, tiny_repo: hub.Repo, look_up: LookUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glance, "COST", 100)
    assert refusal(look_up).startswith("a config.json that is wrong: it has ")
    assert fake.got("config.json") == []


def test_more_than_was_promised_is_not_taken(fake: hub.Hub, tiny_repo: hub.Repo, look_up: LookUp) -> None:
    (tiny_repo.folder / "chat_template.jinja").write_bytes(b"x" * 50_000_000)
    promised = {"rfilename": "chat_template.jinja", "blobId": HASH, "size": 5}
    config = {
        "rfilename": "config.json",
        **tiny_repo.entry("config.json"),
        "blobId": tiny_repo.entry("config.json")["oid"],
    }
    tiny_repo.told = {"siblings": [config, promised]}
    assert "sends other bytes of chat_template.jinja" in refusal(look_up)
