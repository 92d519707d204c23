"""Fixtures: a machine with plenty of everything, a Hub with tiny models, and the plan for one of them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from checks.machine import Machine
from checks.memory.plan import Plan, make_plan
from checks.memory.plan_request import PlanRequest
from hub.client import Hub
from hub.repository import Repository
from hub.resolve import find_model, from_folder
from tests.fakes import fake_hub
from tests.tiny_models import tiny


@pytest.fixture
def machine() -> Machine:
    return Machine(
        disk=10**12, ram=10**11, gpus=(), bfloat16_devices=frozenset({"cpu", "cuda"}), port_error=""
    )


@pytest.fixture
def fake() -> Iterator[fake_hub.FakeHub]:
    with fake_hub.running() as fake:
        yield fake


@pytest.fixture
def tiny_repo(fake: fake_hub.FakeHub, tmp_path: Path) -> fake_hub.Repo:
    """acme/tiny, with files of other frameworks and a README in addition to the files that are needed."""
    folder = tiny.llama(tmp_path / "tiny")
    for name in ("original/consolidated.00.pth", "onnx/model.onnx", "README.md", "pytorch_model.bin"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(bytes(5000))
    fake.repos["acme/tiny"] = fake_hub.Repo(folder)
    return fake.repos["acme/tiny"]


@pytest.fixture
def client(fake: fake_hub.FakeHub, tmp_path: Path) -> Hub:
    return Hub(fake.url, tmp_path / "cache")


@pytest.fixture
def look_up(client: Hub, tmp_path: Path) -> Callable[..., Repository]:
    def find_it(name: str = "acme/tiny", revision: str = "main", **changes: Any) -> Repository:
        options = {"home": tmp_path / "home", "hub": client, "offline": False}
        return find_model(name, revision, **(options | changes))

    return find_it


@pytest.fixture
def planned(tmp_path: Path) -> Callable[..., Plan]:
    """Makes the plan for a tiny model in a folder."""

    def plan_it(repository: Repository | None = None, **changes: Any) -> Plan:
        source = repository or from_folder("tiny", tiny.llama(tmp_path / "planned"))
        options = {
            "device": "cpu",
            "dtype": "auto",
            "bfloat16_devices": frozenset({"cpu", "cuda"}),
            "context": 0,
            "max_sequences": 4,
            "kv_memory_bytes": 0,
            "trust_remote_code": False,
        }
        return make_plan(source, PlanRequest(**(options | changes)))

    return plan_it
