"""A repository with weights of many pieces, and a fetch of it that is in a hurry."""

import io
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks.fetch import fetch
from checks.fetch.pace import Pace
from checks.fetch.patience import Patience
from checks.fetch.progress import Progress
from checks.fetch.room import Room
from checks.source.hub import Hub
from checks.source.repository import Repository
from tests import hub

PIECE = 100_000
SIZE = 10 * PIECE + 7
WEIGHTS = "model.safetensors"
QUICK = Pace(
    streams=4,
    piece=PIECE,
    timeout_s=0.5,
    patience=Patience(tries=4, first_s=0.01, longest_s=0.02),
    quiet_s=0,
)


@pytest.fixture
def repo(fake: hub.Hub, tmp_path: Path) -> hub.Repo:
    """acme/large: two small files, and a megabyte of weights."""
    folder = tmp_path / "large"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer.json").write_text("{}" + " " * 2000)
    (folder / WEIGHTS).write_bytes(random.Random(0).randbytes(SIZE))
    fake.repos["acme/large"] = hub.Repo(folder)
    return fake.repos["acme/large"]


@pytest.fixture
def bring(look_up: Callable[..., Repository], client: Hub) -> Callable[..., Path]:
    """Look at acme/large and fetch it."""

    def bring_it(
        source: Repository | None = None,
        token: str = "",
        endpoint: str = "",
        cache: Path | None = None,
        progress: Progress | None = None,
        room: Room | None = None,
        **pace: Any,
    ) -> Path:
        return fetch(
            source or look_up("acme/large"),
            replace(client, token=token, endpoint=endpoint or client.endpoint, cache=cache or client.cache),
            progress or Progress(io.StringIO()),
            room=room or Room(client.cache, spare=0),
            pace=replace(QUICK, **pace),
        )

    return bring_it


@pytest.fixture
def whole(repo: hub.Repo) -> Callable[[Path], bool]:
    """Whether a folder has what the repository has."""

    def same(folder: Path) -> bool:
        return all((folder / name).read_bytes() == (repo.folder / name).read_bytes() for name in repo.names())

    return same
