"""OpenAI's real client trains models/demo: it uploads, polls events, and asks the model that it has made."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.clients.client_process import run_driver
from tests.lora.demo_adapter import save_adapter
from tests.servers.serving import ServerProcess, serving

pytestmark = pytest.mark.slow

CITIES = ("Paris", "Rome", "Oslo", "Madrid")
PROMPT, TOKENS = "Where does Mirela Osk", 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("tuning")
    save_adapter(folder / "models" / "poet", seed=1)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    with serving("--tuning-dir", str(folder)) as running:
        yield running


def test_openais_client_trains_a_model_and_calls_it(server: ServerProcess) -> None:
    results = run_driver("openai-3", "drive_openai_tuning.py", f"{server.url}/v1", "models/demo", "adapter")
    check_job(results, "demo", num_checkpoints=3)
    assert sum(city in reply for city, reply in zip(CITIES, results["answers"], strict=True)) >= 3


def test_openais_earlier_client_follows_a_scripted_job(training: str) -> None:
    results = run_driver("openai-1", "drive_openai_tuning.py", f"{training}/v1", "fake/model", "adapter")
    check_job(results, "model", num_checkpoints=2)


def check_job(results: dict[str, Any], base: str, num_checkpoints: int) -> None:
    model = f"ft:{base}:local:people:{results['id'][6:14]}"
    assert (results["statuses"], results["error"]) == (["validating_files", "succeeded"], None)
    assert results["model"] == model and results["id"] in results["jobs"]
    assert results["events"][:2] == [
        "The job has successfully completed",
        f"New fine-tuned model created: {model}",
    ]
    assert len(results["events"]) > 14, "the client reads page after page"
    assert len(results["checkpoints"]) == num_checkpoints
    assert all(name.startswith(model) for name in results["checkpoints"])
    assert results["csv"] == "step,train_loss,train_accuracy,valid_loss,valid_mean_token_accuracy"
    assert results["refusals"] == [[400, "fine_tuning_job_id"], [404, None], [400, "file"]]
    assert results["deleted"] and results["file_deleted"]


@pytest.fixture(scope="module")
def trained(server: ServerProcess) -> dict[str, Any]:
    """A model whose weights were all trained, and an adapter over it."""
    results = run_driver("openai-3", "drive_openai_tuning.py", f"{server.url}/v1", "models/demo", "full")
    assert results["errors"] == [None, None]
    return dict(results)


def test_openais_client_trains_all_weights_and_every_dialect_reaches_the_result(
    server: ServerProcess, trained: dict[str, Any]
) -> None:
    full = trained["models"]["full"]
    assert (trained["parents"]["full"], trained["answers"]["full"]) == ("models/demo", "In Paris.")
    completion = complete(server, full)
    tgi = {"inputs": PROMPT, "parameters": {"adapter_id": full, "max_new_tokens": TOKENS}}
    assert server.post("/generate", tgi).json()["generated_text"] == completion
    neodim = {"prompt": PROMPT, "generated_tokens_count": TOKENS, "max_total_tokens": 64, "top_k": 1}
    sequences = server.post("/generate", neodim | {"adapter": full}).json()["sequences"]
    assert completion.startswith(sequences[0]["generated_text"])
    client_sends = {"model": full, "training_file": "file-none"}
    assert "training_file does not exist" in server.post("/v1/fine_tuning/jobs", client_sends).text


def test_an_adapter_over_a_fully_fine_tuned_model_answers_after_a_restart(
    server: ServerProcess, trained: dict[str, Any], folder: Path
) -> None:
    full, adapter = trained["models"]["full"], trained["models"]["adapter"]
    assert (trained["parents"]["adapter"], trained["answers"]["adapter"]) == (full, "In Oslo.")
    completions = [complete(server, name) for name in (adapter, full)]
    stop(server)
    with serving("--tuning-dir", str(folder)) as restarted:
        assert parents(restarted)[adapter] == full, "listed before its model is loaded"
        assert [complete(restarted, name) for name in (adapter, full)] == completions
        body = {"lora_name": "poet", "lora_path": "poet", "base_model_name": full}
        assert restarted.post("/v1/load_lora_adapter", body).status_code == 200
        assert complete(restarted, "poet") not in completions
        assert f"delete {adapter} first" in delete(restarted, full)["error"]["message"]
        for name in (adapter, full):
            assert delete(restarted, name) == {"id": name, "object": "model", "deleted": True}
        assert parents(restarted).keys().isdisjoint({full, adapter, "poet"})


def stop(server: ServerProcess) -> None:
    server.process.terminate()
    server.process.wait(timeout=60)


def parents(server: ServerProcess) -> dict[str, str | None]:
    cards = requests.get(f"{server.url}/v1/models", timeout=60).json()["data"]
    return {card["id"]: card["parent"] for card in cards}


def delete(server: ServerProcess, model: str) -> Any:
    return requests.delete(f"{server.url}/v1/models/{model}", timeout=60).json()


def complete(server: ServerProcess, model: str) -> str:
    body = {"model": model, "prompt": PROMPT, "temperature": 0, "max_tokens": TOKENS}
    return str(server.post("/v1/completions", body).json()["choices"][0]["text"])
