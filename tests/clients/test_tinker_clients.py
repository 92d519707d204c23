"""Tinker's real clients train models/demo: 0.15 sends JSON, 0.25 and 0.38 protobuf."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client_process import run_driver
from tests.servers.serving import serving

pytestmark = pytest.mark.slow

TOKENS = [56, 271, 1400, 13, 220, 370, 371, 500, 90, 71]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("tuning")
    with serving("--tuning-dir", str(folder)) as running:
        yield running.url


@pytest.fixture(scope="module", params=["tinker-0.15", "tinker-0.25", "tinker-0.38"])
def results(request: pytest.FixtureRequest, url: str) -> Any:
    return run_driver(request.param, "drive_tinker.py", url, "models/demo", json.dumps(TOKENS))


def test_the_loss_falls(results: Any) -> None:
    assert results["models"] == ["models/demo"] and results["model"] == "models/demo"
    assert results["arch"] == "LlamaForCausalLM"
    losses = results["losses"]
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0] / 2
    assert all(norm > 0 for norm in results["norms"])
    assert results["ratios"] == {"importance_sampling": pytest.approx(-9), "ppo": pytest.approx(-9)}


def test_the_trainer_and_the_sampler_agree(results: Any) -> None:
    first, *sampled = results["prompt_logprobs"]
    assert first is None and sampled == pytest.approx(results["logprobs"], abs=1e-3)


def test_samples_have_logprobs_and_a_seed_repeats_them(results: Any) -> None:
    assert len(results["greedy"]) == len(results["greedy_logprobs"]) == 4
    first, second = results["seeded"]
    assert first == second and len({tuple(tokens) for tokens in first}) > 1


def test_checkpoints_are_loaded_listed_and_deleted(results: Any) -> None:
    trained, loaded = results["loaded_losses"]
    assert loaded == pytest.approx(trained, abs=1e-5)
    assert results["checkpoints"] == ["sampler_weights/named", "weights/0001"]
    assert results["run"] and results["listed"] and results["left"] == ["sampler_weights/named"]


def test_checkpoints_are_downloaded(results: Any) -> None:
    assert results["downloads"] and set(results["downloads"]) <= {"archive", "external"}
    for files in results["downloads"].values():
        assert {"adapter_config.json", "adapter_model.safetensors"} <= set(files)
    assert set(results["ranks"]) == {4} and min(results["sizes"]) > 10_000


def test_refusals_reach_the_client_in_words_and_the_run_goes_on(results: Any) -> None:
    tokens, name = results["refusal"]
    assert "must have token ids from 0 to 2047, got 1000000" in tokens
    assert "must have 1 to 128 letters" in name
