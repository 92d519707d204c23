"""Only folders below ADAPTER_DIRS are found, whatever path, link or trick names another one."""

import os
from pathlib import Path

import pytest

from inference.lora.fence import Fence


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """allowed/poet, allowed/acme/cook and outside/secret are adapters; links lead out of allowed and back."""
    for name in ("allowed/poet", "allowed/acme/cook", "outside/secret", "allowed-too/secret"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "adapter_config.json").write_text("{}")
    if os.name == "posix":
        (tmp_path / "allowed/out").symlink_to(tmp_path / "outside/secret")
        (tmp_path / "allowed/inside").symlink_to(tmp_path / "allowed/poet")
        (tmp_path / "allowed/loop").symlink_to(tmp_path / "allowed/loop")
        (tmp_path / "link").symlink_to(tmp_path / "allowed")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("poet", "allowed/poet"),
        ("acme/cook", "allowed/acme/cook"),
        ("acme/../poet", "allowed/poet"),
        pytest.param("inside", "allowed/poet", marks=pytest.mark.system("posix")),
        ("{root}/allowed/poet", "allowed/poet"),
        ("{root}/allowed/poet/", "allowed/poet"),
        ("{root}/outside/../allowed/poet", "allowed/poet"),
    ],
)
def test_a_folder_below_is_found(root: Path, path: str, folder: str) -> None:
    assert Fence([str(root / "allowed")]).find(path.format(root=root)) == root / folder


@pytest.mark.parametrize(
    "path",
    [
        "", ".", "poet/..", "..", "../outside/secret", "../allowed-too/secret", "out", "loop", "none",
        "{root}/outside/secret", "{root}/allowed-too/secret", "{root}/allowed",
        "{root}/allowed/../outside/secret", "poet/adapter_config.json", "a\0b", "x" * 5000,
        "file://{root}/allowed/poet", "~", "~/x", "/", "/proc/self", "//etc", "%2e%2e/outside/secret",
        "poet/../../outside/secret", "out/../secret", "..\\outside\\secret", "C:\\",
        "\\\\server\\share", "//server/share", "NUL", "\\\\.\\NUL",
    ],
)  # fmt: skip
def test_no_other_path_is_found(root: Path, path: str) -> None:
    assert Fence([str(root / "allowed")]).find(path.format(root=root)) is None


INSIDE, OUT, OUT_NEW = (  # links
    pytest.param(path, marks=pytest.mark.system("posix")) for path in ("inside/new", "out", "out/new")
)


@pytest.mark.parametrize("path", ["poet", "none", "none/deeper", INSIDE, "{root}/allowed/new", "poet/a.txt"])
def test_a_place_below_is_enclosed_whether_or_not_it_exists(root: Path, path: str) -> None:
    assert Fence([str(root / "allowed")]).encloses(path.format(root=root))


@pytest.mark.parametrize(
    "path", ["", ".", "../none", OUT, OUT_NEW, "/none", "{root}/allowed-too/new", "a\0b"]
)
def test_no_other_place_is_enclosed(root: Path, path: str) -> None:
    assert not Fence([str(root / "allowed")]).encloses(path.format(root=root))


def test_a_relative_path_is_tried_below_each_folder(root: Path) -> None:
    fence = Fence([str(root / "none"), str(root / "outside"), str(root / "allowed")])
    assert fence.find("secret") == root / "outside/secret"
    assert fence.find("poet") == root / "allowed/poet"


@pytest.mark.system("posix")
def test_a_fence_that_is_a_link_holds_what_it_leads_to(root: Path) -> None:
    fence = Fence([str(root / "link")])
    assert fence.find("poet") == fence.find(str(root / "link/poet")) == root / "allowed/poet"
    assert fence.find(str(root / "allowed/poet")) == root / "allowed/poet"
    assert fence.find("out") is None


def test_a_home_folder_is_expanded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(root))
    assert Fence(["~/allowed"]).find("poet") == root / "allowed/poet"


def test_nothing_outside_is_looked_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fence = Fence([str(root / "allowed")])
    assert fence.find("poet")
    monkeypatch.setattr(Path, "resolve", lambda *_, **__: pytest.fail("looked up"))
    monkeypatch.setattr(os.path, "isdir", lambda *_: pytest.fail("looked up"))
    assert fence.find(str(root / "outside/secret")) is None
    assert fence.find("../outside/secret") is None
    assert os.path.exists(root / "outside/secret")
