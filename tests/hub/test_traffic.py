"""The cost of a preflight: every byte and every request is counted, for a repository as it is on the Hub."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import transformers
from huggingface_hub import constants

from checks.preflight import PreflightReport, preflight
from hub.resolve import resolve_in_background
from settings.schema import Settings
from settings.sources import Source, read_config_file, resolve
from startup import one_model
from tests.fakes import fake_hub
from tests.tiny_models import tiny

ROOT = Path(__file__).parent.parent.parent
MOST = 2_000_000  # bytes
SHAPE = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "vocab_size": 4096}
EXTRA_FILES = (
    "original/consolidated.00.pth",
    "original/tokenizer.model",
    "onnx/model.onnx",
    "onnx/config.json",
    "openvino/model.bin",
    "model-Q4_K_M.gguf",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "flax_model.msgpack",
    "tf_model.h5",
    "README.md",
    "LICENSE",
    "figures/results.png",
)


@pytest.fixture
def large(fake: fake_hub.FakeHub, tmp_path: Path) -> fake_hub.Repo:
    """acme/large: several shards, a tokenizer of 9 MB, and files for other programs."""
    folder = tmp_path / "large"
    config = transformers.LlamaConfig(**tiny.LLAMA | SHAPE)
    tiny.save_model(folder, transformers.LlamaForCausalLM, config, max_shard_size="6MB")
    tiny.edit(folder / "tokenizer.json", filler="x" * 9_000_000)
    tiny.edit(folder / "tokenizer_config.json", filler="x" * 60_000)
    for name in EXTRA_FILES:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(bytes(3_000_000))
    fake.repos["acme/large"] = fake_hub.Repo(folder, card={"license": "apache-2.0"})
    return fake.repos["acme/large"]


def options_of(name: str, folder: Path) -> Settings:
    overrides = {"MODEL_NAME": name, "CACHE_DIR": str(folder / "cache"), "PORT": 0}
    return resolve([read_config_file(ROOT / "config.py"), Source("here", overrides)])


@pytest.fixture
def verdict(
    fake: fake_hub.FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], PreflightReport]]:
    """The report of `main.py --check` for acme/large."""
    monkeypatch.setattr(constants, "ENDPOINT", fake.url)
    options = options_of("acme/large", tmp_path)
    yield lambda: preflight(options, resolve_in_background(options, tmp_path))


Check = Callable[[], PreflightReport]


def header(path: Path) -> int:
    """Bytes of a safetensors file before its first weight."""
    with path.open("rb") as file:
        return 8 + int.from_bytes(file.read(8), "little")


def planned_files(report: PreflightReport) -> list[str]:
    assert report.ok and report.plan, report.findings
    return [file.name for file in report.plan.repository.files]


def test_a_preflight_costs_less_than_two_megabytes_and_no_byte_of_weights(
    fake: fake_hub.FakeHub, large: fake_hub.Repo, verdict: Check
) -> None:
    assert verdict().ok
    assert fake.wire < MOST
    shards = [name for name in large.names() if name.endswith(".safetensors")]
    assert len(shards) > 3
    for name in shards:
        assert sum(request.sent for request in fake.gets_of(name)) <= header(large.folder / name)


def test_files_that_are_not_loaded_and_large_files_are_not_requested(
    fake: fake_hub.FakeHub, large: fake_hub.Repo, verdict: Check
) -> None:
    verdict()
    requested_files = {request.what.partition("/resolve/")[2].partition("/")[2] for request in fake.requests}
    assert requested_files.isdisjoint({*EXTRA_FILES, "tokenizer.json"})


def test_a_preflight_makes_few_requests_and_a_second_one_fewer(
    fake: fake_hub.FakeHub, large: fake_hub.Repo, verdict: Check
) -> None:
    verdict()
    first = len(fake.requests)
    fake.requests.clear()
    verdict()
    shards = sum(name.endswith(".safetensors") for name in large.names())
    assert first <= 12 + 2 * shards
    assert len(fake.requests) <= 2 + 2 * shards


def test_the_files_are_exactly_those_that_loading_reads(large: fake_hub.Repo, verdict: Check) -> None:
    shards = [name for name in large.names() if name.endswith(".safetensors")]
    assert planned_files(verdict()) == sorted(
        [
            *shards,
            "chat_template.jinja",
            "config.json",
            "generation_config.json",
            "model.safetensors.index.json",
            "tokenizer.json",
            "tokenizer_config.json",
        ]
    )


def test_without_an_index_that_is_too_large_the_file_names_give_the_shards(
    fake: fake_hub.FakeHub, large: fake_hub.Repo, verdict: Check
) -> None:
    before = planned_files(verdict())
    index = large.folder / "model.safetensors.index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"metadata": {"filler": "x" * 3_000_000}}))
    large.version += 1
    fake.wire = 0
    assert planned_files(verdict()) == before
    assert fake.wire < MOST
    assert not [request for request in fake.gets_of("index.json") if large.commit in request.what]


@pytest.mark.slow
def test_the_command_prints_a_verdict_for_programs(
    fake: fake_hub.FakeHub, large: fake_hub.Repo, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "main.py", "--check", "--json", "--model-name=acme/large", "--port=0"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"HF_ENDPOINT": fake.url, "CACHE_DIR": str(tmp_path / "cache")},
    )
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["ok"], access_in(verdict)["ok"]) == (0, True, True)
    assert fake.wire < MOST


def test_a_refused_model_is_a_verdict_that_names_the_right_one(
    fake: fake_hub.FakeHub,
    large: fake_hub.Repo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", fake.url)
    options = options_of("acme/larg", tmp_path)
    assert one_model.check(options, resolve_in_background(options, tmp_path), as_json=True) == 1
    verdict = json.loads(capsys.readouterr().out)
    assert (verdict["ok"], access_in(verdict)["ok"]) == (False, False)
    assert "acme/large" in access_in(verdict)["fix"] and fake.wire < MOST


def access_in(verdict: dict[str, Any]) -> dict[str, Any]:
    """The finding about the access to the model."""
    return next(finding for finding in verdict["findings"] if finding["name"] == "access")
