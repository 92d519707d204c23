"""The metrics and the log lines of fine-tuning jobs."""

import logging

import pytest

from inference.metrics import Metrics
from tests.tuning.scripted_service import create_job, wait_for_job, wait_until
from tuning.jobs import training
from tuning.service import TuningService


def test_jobs_are_counted_by_status(service: TuningService) -> None:
    metrics = Metrics()
    metrics.registry.register(service.metrics)
    wait_for_job(service, create_job(service).id)
    wait_for_job(service, create_job(service, {"fail_at": 3}).id)
    text = metrics.render().decode()
    assert 'hearth_tuning_jobs{status="succeeded"} 1.0' in text
    assert 'hearth_tuning_jobs{status="failed"} 1.0' in text
    assert 'hearth_tuning_jobs{status="paused"} 0.0' in text
    assert "hearth_tuning_steps_total 12.0" in text
    assert "hearth_tuning_tokens_per_second 0.0" in text


def test_the_speed_of_running_jobs_is_measured(service: TuningService) -> None:
    job = create_job(service, {"hold_at": 1})
    wait_for_job(service, job.id, "running")
    wait_until(lambda: service.jobs.get(job.id).progress.step, bool)
    metrics = Metrics()
    metrics.registry.register(service.metrics)
    assert "hearth_tuning_tokens_per_second 100.0" in metrics.render().decode()
    service.jobs.cancel(job.id)


def test_the_log_has_the_rate_and_the_time_left(
    service: TuningService, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "LOG_EVERY_S", 0.02)
    with caplog.at_level(logging.INFO, "tuning"):
        job = create_job(service, {"hold_at": 1})
        wait_until(lambda: caplog.text, lambda text: f"job={job.id} step=1" in text)
        service.jobs.cancel(job.id)
    assert "/10 loss=" in caplog.text and "tokens_per_s=100 eta_s=" in caplog.text


def test_training_runs_have_metrics(service: TuningService) -> None:
    metrics = Metrics()
    metrics.registry.register(service.runs.metrics)
    assert "hearth_tuning_runs 0.0" in metrics.render().decode()
