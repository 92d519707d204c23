"""A machine with plenty of everything, a Hub with tiny models, and the plan for one of them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from checks.machine import Machine
from checks.plan import Asked, Plan, plan
from checks.source.find import find, in_folder
from checks.source.hub import Hub
from checks.source.repository import Repository
from tests import hub, tiny


@pytest.fixture
def machine() -> Machine:
    return Machine(disk=10**12, ram=10**11, gpus=(), bfloat16=frozenset({"cpu", "cuda"}), taken="")


@pytest.fixture
def fake() -> Iterator[hub.Hub]:
    with hub.running() as fake:
        yield fake


@pytest.fixture
def tiny_repo(fake: hub.Hub, tmp_path: Path) -> hub.Repo:
    """acme/tiny, with files of other frameworks and a README beside what is needed."""
    folder = tiny.llama(tmp_path / "tiny")
    for name in ("original/consolidated.00.pth", "onnx/model.onnx", "README.md", "pytorch_model.bin"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(bytes(5000))
    fake.repos["acme/tiny"] = hub.Repo(folder)
    return fake.repos["acme/tiny"]


@pytest.fixture
def client(fake: hub.Hub, tmp_path: Path) -> Hub:
    return Hub(fake.url, tmp_path / "cache")


@pytest.fixture
def look_up(client: Hub, tmp_path: Path) -> Callable[..., Repository]:
    def find_it(name: str = "acme/tiny", revision: str = "main", **changes: Any) -> Repository:
        options = {"home": tmp_path / "home", "hub": client, "offline": False, "code": False}
        return find(name, revision, **(options | changes))

    return find_it


@pytest.fixture
def planned(tmp_path: Path) -> Callable[..., Plan]:
    """The plan for a tiny model in a folder."""

    def plan_it(repository: Repository | None = None, **changes: Any) -> Plan:
        source = repository or in_folder("tiny", tiny.llama(tmp_path / "planned"), code=False)
        options = {
            "device": "cpu",
            "dtype": "auto",
            "bfloat16": frozenset({"cpu", "cuda"}),
            "context": 0,
            "rows": 4,
            "kv": 0,
            "code": False,
        }
        return plan(source, Asked(**(options | changes)))

    return plan_it
