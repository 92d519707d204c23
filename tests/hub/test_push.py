"""A folder is uploaded with huggingface_hub, and the Hub's refusal is an error of one line."""

from pathlib import Path

import pytest

from hub.client import Hub
from hub.push import push_folder
from inference.errors import BadRequest
from tests.fakes.fake_hub import TOKEN
from tests.fakes.fake_hub_uploads import running_with_uploads


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_a_folder_becomes_a_private_repository(folder: Path, tmp_path: Path) -> None:
    with running_with_uploads() as hub:
        url = push_folder(Hub(hub.url, tmp_path, TOKEN), "me/model", folder, is_private=True)
    assert url == f"{hub.url}/me/model"
    (created,) = hub.created
    assert (created["name"], created["organization"], created["visibility"]) == ("model", "me", "private")
    assert hub.uploaded == {"config.json": b"{}", "model.safetensors": b"weights"}


def test_a_refusal_has_the_reason(folder: Path, tmp_path: Path) -> None:
    with running_with_uploads() as hub, pytest.raises(BadRequest, match=r"push to me/model failed: .*401"):
        push_folder(Hub(hub.url, tmp_path, "hf_wrong"), "me/model", folder, is_private=True)
    assert not hub.uploaded


def test_a_name_that_no_repository_has_is_refused(folder: Path, tmp_path: Path) -> None:
    with running_with_uploads() as hub, pytest.raises(BadRequest, match=r"push to \.\./x failed"):
        push_folder(Hub(hub.url, tmp_path, TOKEN), "../x", folder, is_private=True)
    assert not hub.created
