"""Jobs that train all weights: their results are whole models, which a host serves."""

import json
from pathlib import Path
from typing import Any

import pytest

from inference.errors import BadRequest, NotFound
from tests.tuning.conftest import MakeService
from tests.tuning.held_programs import release
from tests.tuning.jobs.job_processes import wait_for_step
from tests.tuning.scripted_service import RecordingAdapters, RecordingHost, create_job, wait_for_job
from tuning.jobs.fine_tuned_models import FineTunedModels, TrainedModel
from tuning.service import TuningService
from tuning.types import Job

FULL, LORA = {"finetuning_type": "full"}, {"finetuning_type": "lora"}


@pytest.fixture
def host() -> RecordingHost:
    return RecordingHost()


@pytest.fixture
def service(open_services: MakeService, host: RecordingHost) -> TuningService:
    return open_services(host=host)


def finished_job(service: TuningService, **fields: Any) -> Job:
    return wait_for_job(service, create_job(service, hyperparameters=FULL, **fields).id)


def test_the_result_and_the_last_checkpoint_are_served(
    service: TuningService, host: RecordingHost, adapters: RecordingAdapters
) -> None:
    job = finished_job(service)
    assert job.status == "succeeded" and job.fine_tuned_model == job.model
    assert host.added.keys() == {job.model, f"{job.model}:ckpt-step-10"} and not adapters.loaded
    folder, parent = host.added[job.model]
    assert (folder, parent) == (service.folder / "models" / job.model.replace(":", "_"), "fake/model")
    assert json.loads((folder / "config.json").read_text()) == {"step": "result"}
    assert 'base_model: "fake/model"' in (folder / "README.md").read_text()
    checkpoint = host.added[f"{job.model}:ckpt-step-10"][0]
    assert not (checkpoint / "README.md").exists()
    result = service.folder / "jobs" / job.folder / "result" / "config.json"
    assert (folder / "config.json").samefile(result), "a result is a link: it takes no disk"


def test_only_what_matters_is_in_its_hyperparameters(service: TuningService) -> None:
    values = finished_job(service).hyperparameters
    assert values["finetuning_type"] == "full" and "lora_rank" not in values


def test_a_deleted_model_is_served_no_more(service: TuningService, host: RecordingHost) -> None:
    job = finished_job(service)
    folder = host.added[job.model][0]
    assert service.jobs.delete_model(job.model)
    assert job.model not in host.added and not folder.exists()
    assert not service.jobs.delete_model(job.model)


def test_models_are_served_again_after_a_restart(open_services: MakeService, host: RecordingHost) -> None:
    first = open_services(host=host)
    job = finished_job(first)
    first.close()
    again = RecordingHost()
    open_services(host=again)
    assert again.added == host.added and job.model in again.added


def test_a_whole_model_is_trained_on(service: TuningService, host: RecordingHost) -> None:
    parent = finished_job(service)
    child = finished_job(service, model=parent.model)
    assert child.status == "succeeded" and host.added[child.model][1] == parent.model
    draft = json.loads((service.folder / "jobs" / child.folder / "draft.json").read_text())
    assert Path(draft["base"]["model_folder"], "config.json").exists() and not draft["initial_adapter"]
    assert not draft["base"]["weight_file"], "its weights are not the served ones"


def test_a_client_that_knows_only_openais_fields_goes_on_from_a_whole_model(
    service: TuningService, host: RecordingHost
) -> None:
    parent = finished_job(service)
    child = wait_for_job(service, create_job(service, model=parent.model).id)
    assert child.hyperparameters["finetuning_type"] == "full" and child.model in host.added


@pytest.mark.parametrize("values", [{"finetuning_type": "lora"}, {"lora_rank": 8}])
def test_an_adapter_is_trained_over_a_whole_model(
    service: TuningService, host: RecordingHost, adapters: RecordingAdapters, values: dict[str, Any]
) -> None:
    full = finished_job(service)
    job = wait_for_job(service, create_job(service, model=full.model, hyperparameters=values).id)
    assert job.hyperparameters["finetuning_type"] == "lora" and not adapters.loaded
    assert host.adapters.keys() == {job.model, f"{job.model}:ckpt-step-5", f"{job.model}:ckpt-step-10"}
    assert host.adapters[job.model] == (service.folder / "models" / job.model.replace(":", "_"), full.model)
    draft = json.loads((service.folder / "jobs" / job.folder / "draft.json").read_text())
    assert Path(draft["base"]["model_folder"]) == host.added[full.model][0] and not draft["initial_adapter"]


def test_an_adapter_over_a_whole_model_is_trained_on(service: TuningService, host: RecordingHost) -> None:
    full = finished_job(service)
    first = wait_for_job(service, create_job(service, model=full.model, hyperparameters=LORA).id)
    second = wait_for_job(service, create_job(service, model=first.model).id)
    assert host.adapters[second.model][1] == full.model
    draft = json.loads((service.folder / "jobs" / second.folder / "draft.json").read_text())
    assert Path(draft["base"]["model_folder"]) == host.added[full.model][0]
    assert Path(draft["initial_adapter"], "adapter_config.json").exists()


def test_adapters_over_whole_models_are_served_again_after_a_restart(
    open_services: MakeService, host: RecordingHost
) -> None:
    first = open_services(host=host)
    checkpoint = f"{finished_job(first).model}:ckpt-step-10"  # listed behind the results of all jobs
    job = wait_for_job(first, create_job(first, model=checkpoint, hyperparameters=LORA).id)
    first.close()
    again = RecordingHost()
    open_services(host=again)
    assert again.adapters == host.adapters and again.adapters[job.model][1] == checkpoint


def test_a_whole_model_stays_while_adapters_need_it(service: TuningService, host: RecordingHost) -> None:
    full = finished_job(service)
    job = create_job(service, {"hold_at": 1}, model=full.model, hyperparameters=LORA)
    with pytest.raises(BadRequest, match=f"{job.id} trains an adapter over: cancel that"):
        service.jobs.delete_model(full.model)
    release(service.folder / "jobs" / job.folder)
    wait_for_job(service, job.id)
    with pytest.raises(BadRequest, match=f"has adapters over it: delete .*{job.model}"):
        service.jobs.delete_model(full.model)
    service.jobs.delete_model(job.model)
    assert host.adapters.keys() == {f"{job.model}:ckpt-step-5", f"{job.model}:ckpt-step-10"}
    assert service.jobs.delete_model(full.model) and not host.adapters


def test_no_adapter_is_trained_over_a_checkpoint_that_does_not_stay(service: TuningService) -> None:
    job = create_job(service, {"hold_at": 6}, hyperparameters=FULL)
    wait_for_step(service, job.id, 6)
    (checkpoint,) = service.jobs.checkpoints(job.id, limit=1).values
    with pytest.raises(BadRequest, match="a checkpoint that a later one replaces: wait for the end"):
        create_job(service, model=checkpoint.model, hyperparameters=LORA)


@pytest.mark.parametrize("base_model", ["", "ft:full"])
def test_a_checkpoint_whose_files_are_gone_has_no_name(
    tmp_path: Path, host: RecordingHost, adapters: RecordingAdapters, base_model: str
) -> None:
    """A later one has replaced it: an adapter was listed as a model of its own, which could not be loaded."""
    models = FineTunedModels(tmp_path / "models", ("fake/model",), adapters, host)
    with pytest.raises(NotFound, match="its folder is gone"):
        models.serve(TrainedModel("ft:x:ckpt-step-5", tmp_path / "gone", "fake/model", base_model))
    assert not host.added and not host.adapters and not adapters.loaded


def test_a_whole_model_is_not_made_of_an_adapter(service: TuningService) -> None:
    adapter = wait_for_job(service, create_job(service).id)
    with pytest.raises(BadRequest, match="is an adapter: name the base model"):
        create_job(service, model=adapter.model, hyperparameters=FULL)


def test_a_server_without_a_host_trains_adapters_alone(open_services: MakeService) -> None:
    with pytest.raises(BadRequest, match="must be lora") as error:
        create_job(open_services(), hyperparameters=FULL)
    assert error.value.field == "finetuning_type"
