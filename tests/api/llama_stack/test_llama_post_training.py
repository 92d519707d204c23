"""Training jobs in the paths of every generation of clients: created, followed and cancelled."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.tuning.scripted_service import ROW, upload, wait_for_job
from tuning.service import TuningService
from tuning.types import Job

PREFIXES = {"root": "", "alpha": "/alpha", "v1": "/v1", "v1alpha": "/v1alpha"}
OLD_ADAPTER = {
    "lora_attn_modules": ["q_proj"],
    "apply_lora_to_mlp": False,
    "apply_lora_to_output": False,
    "rank": 8,
    "alpha": 16,
}
OLD_DPO = {"reward_scale": 1.0, "reward_clip": 1.0, "epsilon": 0.1, "gamma": 0.9}


def path(prefix: str, name: str) -> str:
    """The path of a route; `name` with - between the words of a segment."""
    words = f"{prefix}/post-training/{name}"
    return words if prefix else words.replace("-", "_")


def new_body(**fields: Any) -> dict[str, Any]:
    """A body of the clients since 0.0.54."""
    training = {
        "n_epochs": 1,
        "max_steps_per_epoch": 10,
        "gradient_accumulation_steps": 1,
        "max_validation_steps": 1,
        "dtype": None,
        "data_config": {"dataset_id": "d", "batch_size": 4, "shuffle": True, "data_format": "instruct"},
        "optimizer_config": {
            "optimizer_type": "adamw",
            "lr": 3e-4,
            "weight_decay": 0.01,
            "num_warmup_steps": 10,
        },
        "efficiency_config": None,
    }
    body = {"job_uuid": "job-1", "model": "fake/model", "checkpoint_dir": None}
    return body | {"hyperparam_search_config": {}, "logger_config": {}, "training_config": training} | fields


@pytest.fixture
def dataset(tuning: TuningService) -> str:
    tuning.datasets.register("d", "post-training/messages", {"type": "rows", "rows": [ROW]})
    return "d"


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_a_job_is_created_and_followed_to_its_end(
    trainer_client: FlaskClient, tuning: TuningService, dataset: str, prefix: str
) -> None:
    created = trainer_client.post(path(prefix, "supervised-fine-tune"), json=new_body())
    assert (created.status_code, created.json) == (200, {"job_uuid": "job-1"})
    job = wait_for_job(tuning, "job-1")
    jobs = trainer_client.get(path(prefix, "jobs"), headers={"Accept": "application/jsonl"}).json
    assert jobs == (
        {"data": [{"job_uuid": "job-1"}]} if prefix.startswith("/v1") else [{"job_uuid": "job-1"}]
    )
    status = trainer_client.get(path(prefix, "job/status") + "?job_uuid=job-1").json
    assert (status["status"], status["resources_allocated"]["step"]) == ("completed", 10)
    artifacts = trainer_client.get(path(prefix, "job/artifacts") + "?job_uuid=job-1").json
    assert artifacts == {"job_uuid": "job-1", "checkpoints": status["checkpoints"]}
    assert artifacts["checkpoints"][-1]["identifier"] == job.fine_tuned_model
    logs = trainer_client.get(path(prefix, "job/logs") + "?job_uuid=job-1").json
    assert "rank 16" in logs["log_lines"][0] and logs["log_lines"][-1].endswith("successfully completed")


def test_the_client_0_7_0_has_the_job_in_the_path(
    trainer_client: FlaskClient, tuning: TuningService, dataset: str
) -> None:
    trainer_client.post("/v1alpha/post-training/supervised-fine-tune", json=new_body())
    jobs = "/v1alpha/post-training/jobs/job-1"
    wait_for_job(tuning, "job-1")
    assert trainer_client.get(f"{jobs}/status").json["status"] == "completed"
    assert trainer_client.get(f"{jobs}/artifacts").json["checkpoints"]
    refused = trainer_client.post(f"{jobs}/cancel")
    assert refused.status_code == 400 and "has ended" in refused.json["error"]["message"]


def test_checkpoints_have_all_figures_and_answer_by_name(
    trainer_client: FlaskClient, tuning: TuningService, dataset: str
) -> None:
    trainer_client.post("/v1/post-training/supervised-fine-tune", json=new_body())
    job = wait_for_job(tuning, "job-1")
    first, last, result = trainer_client.get("/v1/post-training/job/artifacts?job_uuid=job-1").json[
        "checkpoints"
    ]
    assert first["identifier"] == f"{job.model}:ckpt-step-5"
    assert job.model.startswith("ft:model:local:job-1:")
    metrics = first["training_metrics"]
    assert metrics | {"epoch": 1, "train_loss": 0.2, "validation_loss": 0.4} == metrics
    assert metrics["perplexity"] == pytest.approx(1.4918, abs=1e-4)
    assert (first["path"], first["post_training_job_id"]) == (first["identifier"], "job-1")
    assert result == last | {"identifier": job.model, "path": job.model}


def test_a_running_job_is_running_for_the_first_clients(
    trainer_client: FlaskClient, tuning: TuningService
) -> None:
    rows = [ROW | {"trainer": {"step_s": 0.05}}]
    tuning.datasets.register("d", "post-training/messages", {"type": "rows", "rows": rows})
    trainer_client.post("/v1/post-training/supervised-fine-tune", json=new_body())
    wait_for_job(tuning, "job-1", "running")
    assert trainer_client.get("/post_training/job/status?job_uuid=job-1").json["status"] == "running"
    assert trainer_client.get("/v1/post-training/job/status?job_uuid=job-1").json["status"] == "in_progress"
    cancelled = trainer_client.post("/v1/post-training/job/cancel", json={"job_uuid": "job-1"})
    assert (cancelled.status_code, cancelled.data) == (200, b"null")
    status = trainer_client.get("/v1/post-training/job/status?job_uuid=job-1").json
    assert status["status"] == "cancelled" and status["completed_at"].endswith("Z")


def test_a_failed_job_says_why(trainer_client: FlaskClient, tuning: TuningService) -> None:
    rows = [ROW | {"trainer": {"fail_at": 2}}]
    tuning.datasets.register("d", "post-training/messages", {"type": "rows", "rows": rows})
    trainer_client.post("/v1/post-training/supervised-fine-tune", json=new_body())
    wait_for_job(tuning, "job-1")
    status = trainer_client.get("/v1/post-training/job/status?job_uuid=job-1").json
    assert (status["status"], status["resources_allocated"]["error"]) == ("failed", "the loss is not finite")
    logs = trainer_client.get("/post_training/job/logs?job_uuid=job-1").json["log_lines"]
    assert any("the loss is not finite" in line for line in logs)


def test_the_flat_bodies_of_the_first_clients_are_understood(
    trainer_client: FlaskClient, tuning: TuningService, dataset: str
) -> None:
    body = {
        "job_uuid": "job-1",
        "model": "fake/model",
        "algorithm": "qlora",
        "algorithm_config": OLD_ADAPTER,
        "dataset_id": "d",
        "validation_dataset_id": "d",
        "optimizer_config": {"optimizer_type": "adam", "lr": 0.01, "lr_min": 0.001, "weight_decay": 0.1},
        "training_config": {
            "n_epochs": 2,
            "batch_size": 2,
            "shuffle": False,
            "n_iters": 7,
            "enable_activation_checkpointing": True,
            "fsdp_cpu_offload": True,
            "memory_efficient_fsdp_wrap": False,
        },
        "hyperparam_search_config": {},
        "logger_config": {},
    }
    assert trainer_client.post("/post_training/supervised_fine_tune", json=body).status_code == 200
    job = wait_for_job(tuning, "job-1")
    values = {
        "n_epochs": 2,
        "batch_size": 2,
        "shuffle": False,
        "max_steps": 7,
        "activation_checkpointing": True,
        "optimizer": "adam",
        "learning_rate": 0.01,
        "weight_decay": 0.1,
        "lora_rank": 8,
        "lora_alpha": 16.0,
        "target_modules": ["q_proj"],
        "train_output": False,
        "quantize_base": True,
        "finetuning_type": "lora",
    }
    assert job.request.hyperparameters == values
    assert (job.request.training, job.request.validation) == ("d", "d")
    note = trainer_client.get("/post_training/job/status?job_uuid=job-1").json["resources_allocated"]["notes"]
    assert note == "fsdp_cpu_offload has no effect. lr_min has no effect: the learning rate falls to 0."


def test_the_dataset_of_a_0_0_41_request_is_stored(
    trainer_client: FlaskClient, tuning: TuningService
) -> None:
    rows = "data:application/jsonl," + json.dumps(ROW)
    dataset = {"columns": {"messages": "dialog"}, "content_url": rows}
    body = {
        "job_uuid": "job-1",
        "model": "fake/model",
        "algorithm": "lora",
        "algorithm_config": OLD_ADAPTER,
        "dataset": dataset,
        "validation_dataset": {"columns": {}, "content_url": ""},
        "optimizer_config": {"optimizer_type": "adam", "lr": 0.01, "lr_min": 0.0, "weight_decay": 0.0},
        "training_config": {"n_epochs": 1},
    }
    assert trainer_client.post("/post_training/supervised_fine_tune", json=body).status_code == 200
    (stored,) = tuning.datasets.list()
    assert wait_for_job(tuning, "job-1").request.training == stored.id
    refused = trainer_client.post("/post_training/supervised_fine_tune", json=body | {"job_uuid": "job-1"})
    assert refused.status_code == 400 and [each.id for each in tuning.datasets.list()] == [stored.id]


def test_configs_may_be_text_that_contains_their_json(
    trainer_client: FlaskClient, tuning: TuningService, dataset: str
) -> None:
    body = new_body(algorithm_config=json.dumps({"type": "LoRA", "rank": 4, "alpha": 8}))
    body["training_config"] = json.dumps(body["training_config"])
    assert trainer_client.post("/v1/post-training/supervised-fine-tune", json=body).status_code == 200
    assert tuning.jobs.get("job-1").request.hyperparameters["lora_rank"] == 4


@pytest.mark.parametrize(
    ("config", "values"),
    [
        (None, {}),
        (
            {"type": "LoRA", "lora_attn_modules": None, "rank": 4, "alpha": 8.0},
            {"lora_rank": 4, "lora_alpha": 8.0},
        ),
        (
            {"lora_attn_modules": ["q_proj", "output_proj"], "apply_lora_to_mlp": False},
            {"target_modules": ["q_proj", "o_proj"]},
        ),
        ({"lora_attn_modules": ["q_proj", "k_proj", "v_proj", "output_proj"], "apply_lora_to_mlp": True}, {}),
        (
            {"lora_attn_modules": [], "apply_lora_to_mlp": True},
            {"target_modules": ["gate_proj", "up_proj", "down_proj"]},
        ),
        ({"apply_lora_to_output": True, "use_dora": True}, {"train_output": True, "use_dora": True}),
    ],
)
def test_the_adapter_has_the_requested_shape(
    trainer_client: FlaskClient, tuning: TuningService, dataset: str, config: Any, values: dict[str, Any]
) -> None:
    body = new_body(algorithm_config=config)
    assert trainer_client.post("/v1/post-training/supervised-fine-tune", json=body).status_code == 200
    hyperparameters = tuning.jobs.get("job-1").request.hyperparameters
    names = {"lora_rank", "lora_alpha", "target_modules", "train_output", "use_dora", "quantize_base"}
    assert {name: value for name, value in hyperparameters.items() if name in names} == values
    assert hyperparameters["finetuning_type"] == "lora", "also over a model whose weights were all trained"


def created_job(client: FlaskClient, tuning: TuningService, **fields: Any) -> Job:
    body = new_body(**fields)
    body["finetuned_model"] = body.pop("model")
    assert client.post("/v1/post-training/preference-optimize", json=body).status_code == 200
    return tuning.jobs.get("job-1")


def test_preferences_are_optimized_with_beta_and_a_loss(
    trainer_client: FlaskClient, tuning: TuningService, dataset: str
) -> None:
    config = {**OLD_DPO, "beta": 0.2, "loss_type": "ipo"}
    job = created_job(trainer_client, tuning, algorithm_config=config)
    assert (job.request.method, job.request.model) == ("dpo", "fake/model")
    assert job.request.hyperparameters | {"beta": 0.2, "loss_type": "ipo"} == job.request.hyperparameters


def test_a_job_without_a_model_trains_the_base(
    trainer_client: FlaskClient, tuning: TuningService, dataset: str
) -> None:
    body = new_body()
    del body["model"]
    assert trainer_client.post("/v1/post-training/supervised-fine-tune", json=body).status_code == 200
    assert tuning.jobs.get("job-1").request.model == "fake/model"


def test_a_dataset_may_be_an_uploaded_file(trainer_client: FlaskClient, tuning: TuningService) -> None:
    body = new_body()
    body["training_config"]["data_config"]["dataset_id"] = upload(tuning)
    assert trainer_client.post("/v1/post-training/supervised-fine-tune", json=body).status_code == 200


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"model": "nope"}, 400, "Invalid value: Model 'nope' not found"),
        ({"job_uuid": "a/b"}, 400, "job_uuid must be 1 to 200"),
        ({"job_uuid": ""}, 400, "job_uuid must be 1 to 200"),
        ({"checkpoint_dir": "/etc"}, 400, "checkpoint_dir must be null"),
        ({"algorithm_config": {"type": "QAT"}}, 501, "Not implemented: algorithm_config.type QAT"),
        ({"algorithm_config": {"type": "X"}}, 400, "algorithm_config.type must be LoRA or Full, got 'X'"),
        (
            {"algorithm_config": {"type": "Full", "rank": 8}},
            400,
            "algorithm_config.rank is for adapters: leave it out beside finetuning_type full",
        ),
        ({"algorithm": "x"}, 400, "algorithm must be one of full, lora, qlora, dora"),
        ({"algorithm_config": {"rank": 0}}, 400, "algorithm_config.rank must be a whole number"),
        ({"algorithm_config": {"rank": 1 << 40}}, 400, "algorithm_config.rank must be"),
        (
            {"algorithm_config": {"lora_attn_modules": [], "apply_lora_to_mlp": False}},
            400,
            "must name a linear",
        ),
        ({"training_config": None}, 400, "training_config.data_config is required"),
        ({"training_config": "{"}, 400, "is not JSON"),
        (
            {"training_config": {"data_config": {"dataset_id": "x"}}},
            400,
            "Invalid value: Dataset 'x' not found",
        ),
        ({"training_config": {"data_config": {"dataset_id": "file-x"}}}, 400, "Invalid value: No such File"),
        ({"training_config": {"data_config": {"dataset_id": "d"}, "n_epochs": 0}}, 400, "n_epochs must be"),
        (
            {"training_config": {"data_config": {"dataset_id": "d"}, "max_steps_per_epoch": 5}},
            400,
            "training_config.n_epochs is required beside max_steps_per_epoch",
        ),
    ],
)
def test_a_request_that_cannot_be_trained_is_refused(
    trainer_client: FlaskClient, tuning: TuningService, dataset: str, fields: Any, status: int, words: str
) -> None:
    response = trainer_client.post("/v1/post-training/supervised-fine-tune", json=new_body(**fields))
    assert (response.status_code, words in response.json["error"]["message"]) == (status, True), response.text
    assert not tuning.jobs.list(limit=10).values


@pytest.mark.parametrize(
    ("config", "status", "words"),
    [
        (OLD_DPO, 501, "send beta instead"),
        ({"beta": 0.1, "loss_type": "kto_pair"}, 501, "loss_type kto_pair"),
        (
            {"beta": 0.1, "loss_type": "x"},
            400,
            "algorithm_config.loss_type must be one of sigmoid, hinge, ipo",
        ),
        ({"beta": 3, "loss_type": "ipo"}, 400, "algorithm_config.beta must be a number above 0, at most 2"),
    ],
)
def test_a_loss_that_is_not_served_is_refused(
    trainer_client: FlaskClient, dataset: str, config: Any, status: int, words: str
) -> None:
    body = new_body(algorithm_config=config)
    response = trainer_client.post("/v1/post-training/preference-optimize", json=body)
    assert (response.status_code, words in response.json["error"]["message"]) == (status, True), response.text


def test_a_checkpoint_dir_inside_the_fence_need_not_exist(
    trainer_client: FlaskClient, tuning: TuningService, dataset: str, tmp_path: Any
) -> None:
    body = new_body(checkpoint_dir=str(tmp_path / "adapters" / "a"))
    assert trainer_client.post("/v1/post-training/supervised-fine-tune", json=body).status_code == 200


def test_a_name_that_is_taken_is_refused(
    trainer_client: FlaskClient, tuning: TuningService, dataset: str
) -> None:
    trainer_client.post("/v1/post-training/supervised-fine-tune", json=new_body())
    response = trainer_client.post("/v1/post-training/supervised-fine-tune", json=new_body())
    assert (response.status_code, response.json["detail"]) == (
        400,
        "Invalid value: Job 'job-1' already exists",
    )


@pytest.mark.parametrize("name", ["status", "artifacts", "logs"])
def test_an_unknown_job_is_an_invalid_value(trainer_client: FlaskClient, name: str) -> None:
    response = trainer_client.get(f"/v1/post-training/job/{name}?job_uuid=x")
    assert (response.status_code, response.json["detail"]) == (400, "Invalid value: Job 'x' not found")
    cancel = trainer_client.post("/v1/post-training/job/cancel", json={"job_uuid": "x"})
    assert (cancel.status_code, cancel.json["detail"]) == (400, "Invalid value: Job 'x' not found")


@pytest.mark.parametrize(("method", "name"), [("GET", "status"), ("GET", "artifacts"), ("POST", "cancel")])
def test_a_client_that_leaves_out_the_job_reads_why(
    trainer_client: FlaskClient, method: str, name: str
) -> None:
    response = trainer_client.open(f"/v1alpha/post-training/job/{name}", method=method)
    assert response.status_code == 400
    assert "the clients 0.4.5 to 0.6.1 leave it out" in response.json["error"]["message"]
