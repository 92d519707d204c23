"""OpenAI's real client trains models/demo: it uploads, polls events, and asks the model that it has made."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.environments import run_driver
from tests.serving import serving

pytestmark = pytest.mark.slow

CITIES = ("Paris", "Rome", "Oslo", "Madrid")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("tuning")
    with serving("--tuning-dir", str(folder)) as running:
        yield f"{running.url}/v1"


@pytest.mark.parametrize("environment", ["openai-1", "openai-3"])
def test_openais_client_trains_a_model_and_calls_it(url: str, environment: str) -> None:
    results = run_driver(environment, "drive_openai_tuning.py", url, "models/demo")
    model = f"ft:demo:local:people:{results['id'][6:14]}"
    assert (results["statuses"], results["error"]) == (["validating_files", "succeeded"], None)
    assert results["model"] == model and results["id"] in results["jobs"]
    assert results["events"][:2] == [
        "The job has successfully completed",
        f"New fine-tuned model created: {model}",
    ]
    assert len(results["events"]) > 100, "the client reads page after page"
    assert len(results["checkpoints"]) == 3 and all(name.startswith(model) for name in results["checkpoints"])
    assert results["csv"] == "step,train_loss,train_accuracy,valid_loss,valid_mean_token_accuracy"
    learned = [city for city, reply in zip(CITIES, results["answers"], strict=True) if city in reply]
    assert len(learned) >= 3
    assert results["refusals"] == [[400, "fine_tuning_job_id"], [404, None], [400, "file"]]
    assert results["deleted"] and results["file_deleted"]
