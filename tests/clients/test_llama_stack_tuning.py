"""llama-stack-client of every protocol version stores datasets and trains with the right results."""

from typing import Any

import pytest

from tests.clients.client_process import run_driver

pytestmark = pytest.mark.slow

VERSIONS = [
    "0.0.41",
    "0.0.50",
    "0.0.63",
    "0.1.0",
    "0.1.9",
    "0.2.12",
    "0.2.23",
    "0.3.5",
    "0.6.0",
    "0.7.0",
    "0.7.5",
]
WITHOUT_LIST = ("0.0.41",)  # of datasets
WITHOUT_ROWS = ("0.0.41",)
WITH_APPEND = ("0.0.63", "0.1.0", "0.2.23", "0.3.5", "0.6.0", "0.7.0", "0.7.5")
WITHOUT_JOB_UUID = ("0.6.0",)  # a fault of theirs
WITHOUT_TRAINING = ("0.7.5",)
WITH_FULL = ("0.0.50", "0.2.23", "0.7.0")
WITHOUT_PREFERENCES = ("0.0.41", "0.0.50")  # they name no loss that a server ever had
TRAINERS = [version for version in VERSIONS if version not in (*WITHOUT_TRAINING, *WITHOUT_JOB_UUID)]


def drive(version: str, url: str) -> dict[str, Any]:
    return run_driver(f"llama-stack-{version}", "drive_llama_stack_tuning.py", url, "fake/model", version)


def is_refused(result: Any, words: str) -> bool:
    return result["raised"] == "BadRequestError" and words in result["body"]["error"]["message"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_dataset_is_stored_read_and_deleted(version: str, training: str) -> None:
    results = drive(version, training)
    name = f"d-{version}"
    if version == "0.0.41":
        assert results["dataset"]["columns"] == {"messages": "dialog"}
    else:
        assert results["dataset"]["identifier"] == name
    if version not in WITHOUT_LIST:
        assert name in [dataset["identifier"] for dataset in results["datasets"]]
    if version not in WITHOUT_ROWS:
        assert len(results["rows"].get("data") or results["rows"]["rows"]) == 2
    if version in WITH_APPEND:
        assert results["append"] is None
    assert results["unregister"] is None
    assert is_refused(results["register_again"], "already exists")
    assert is_refused(results["dataset_unknown"], "Dataset 'nope' not found")


@pytest.mark.parametrize("version", TRAINERS)
def test_a_job_trains_to_its_end(version: str, training: str) -> None:
    results = drive(version, training)
    assert results["fine_tune"] == {"job_uuid": f"job-{version}"}
    assert results["status"]["status"] == "completed"
    assert results["status"]["resources_allocated"]["step"] > 0
    checkpoints = results["artifacts"]["checkpoints"]
    assert checkpoints[-1]["identifier"].startswith(f"ft:model:local:job-{version}:")
    assert {"job_uuid": f"job-{version}"} in results["jobs"]
    assert is_refused(results["fine_tune_again"], f"Job 'job-{version}' already exists")
    assert is_refused(results["fine_tune_unknown"], "Model 'nope' not found")
    assert is_refused(results["status_unknown"], "Job 'nope' not found")
    assert is_refused(results["cancel_ended"], "has ended")


@pytest.mark.parametrize("version", [each for each in TRAINERS if each not in WITHOUT_PREFERENCES])
def test_preferences_are_trained(version: str, training: str) -> None:
    results = drive(version, training)
    assert results["prefer"] == {"job_uuid": f"job-{version}-dpo"}
    assert results["prefer_status"]["status"] == "completed"


@pytest.mark.parametrize("version", WITH_FULL)
def test_all_weights_are_trained(version: str, training: str) -> None:
    results = drive(version, training)
    assert results["fine_tune_full"] == {"job_uuid": f"job-{version}-full"}
    assert results["full_status"]["status"] == "completed"
    assert results["full_status"]["checkpoints"][-1]["identifier"].startswith("ft:model:local:")


@pytest.mark.parametrize("version", WITHOUT_JOB_UUID)
def test_a_client_that_names_no_job_reads_why(version: str, training: str) -> None:
    results = drive(version, training)
    assert results["fine_tune"] == {"job_uuid": f"job-{version}"}
    assert is_refused(results["status"], "the clients 0.4.5 to 0.6.1 leave it out")


def test_the_first_clients_read_a_jobs_logs(training: str) -> None:
    lines = drive("0.0.41", training)["logs"]["log_lines"]
    assert lines and lines[-1].endswith("successfully completed")
