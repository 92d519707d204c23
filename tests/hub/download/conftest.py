"""A repository with weights of many pieces, and a fetch of it with short timeouts."""

import io
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hub.client import Hub
from hub.download import fetch
from hub.download.disk_guard import DiskGuard
from hub.download.progress import Progress
from hub.download.retry import DownloadOptions, RetryPolicy
from hub.repository import Repository
from tests.fakes import fake_hub

PIECE_BYTES = 100_000
SIZE = 10 * PIECE_BYTES + 7
WEIGHTS = "model.safetensors"
QUICK = DownloadOptions(
    num_connections=4,
    piece_bytes=PIECE_BYTES,
    timeout_s=0.5,
    retry_policy=RetryPolicy(max_tries=4, min_wait_s=0.01, max_wait_s=0.02),
    quiet_s=0,
)


@pytest.fixture
def repo(fake: fake_hub.FakeHub, tmp_path: Path) -> fake_hub.Repo:
    """acme/large: two small files, and a megabyte of weights."""
    folder = tmp_path / "large"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer.json").write_text("{}" + " " * 2000)
    (folder / WEIGHTS).write_bytes(random.Random(0).randbytes(SIZE))
    fake.repos["acme/large"] = fake_hub.Repo(folder)
    return fake.repos["acme/large"]


@pytest.fixture
def fetch_model(look_up: Callable[..., Repository], client: Hub) -> Callable[..., Path]:
    """Looks up acme/large and fetches it."""

    def bring_it(
        source: Repository | None = None,
        token: str = "",
        endpoint: str = "",
        cache: Path | None = None,
        progress: Progress | None = None,
        disk_guard: DiskGuard | None = None,
        **pace: Any,
    ) -> Path:
        return fetch(
            source or look_up("acme/large"),
            replace(
                client, token=token, endpoint=endpoint or client.endpoint, cache_dir=cache or client.cache_dir
            ),
            progress or Progress(io.StringIO()),
            disk_guard=disk_guard or DiskGuard(client.cache_dir, spare_bytes=0),
            options=replace(QUICK, **pace),
        )

    return bring_it


@pytest.fixture
def is_complete(repo: fake_hub.Repo) -> Callable[[Path], bool]:
    """Whether a folder has the same files as the repository."""

    def same(folder: Path) -> bool:
        return all((folder / name).read_bytes() == (repo.folder / name).read_bytes() for name in repo.names())

    return same
