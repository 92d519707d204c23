"""The page /tuning in a browser: rows are checked, a job is followed, answers are compared."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, Keys

from inference.types import GenerationRequest
from tests.api.conftest import served
from tests.fakes.fake_backend import FakeAdapters, FakeBackend, Script, say
from tests.live.pages.browser_page import Page, visit
from tests.tuning.scripted_service import ROW, RecordingHost, create_job, make_service
from tuning.service import TuningService

pytestmark = pytest.mark.slow

NAMELESS = """
    const isNameless = (each) =>
        !each.textContent.trim() && !each.getAttribute("aria-label") && !each.labels?.length;
    return [...document.querySelectorAll("button, input, select, textarea")]
        .filter(isNameless).map((each) => each.outerHTML);
"""
CONTRASTS = """
    const style = getComputedStyle(document.body);
    return [style.color, style.backgroundColor];
"""


def answer_with_model(request: GenerationRequest) -> Script:
    return say("tuned" if request.adapter else "base")


@pytest.fixture
def backend() -> FakeBackend:
    backend = FakeBackend(answer_with_model)
    backend.lora = FakeAdapters()
    return backend


@pytest.fixture
def tuning(tmp_path: Path, backend: FakeBackend) -> Iterator[TuningService]:
    service = make_service(tmp_path / "tuning", backend.lora, host=RecordingHost())
    yield service
    service.close()


@contextlib.contextmanager
def open_page(chrome: Chrome, backend: FakeBackend, tuning: TuningService, **settings: Any) -> Iterator[Page]:
    """The open page. It must load everything from the server, and log no error except failed requests."""
    with served(backend, tuning=tuning, **settings) as live, visit(chrome, live.http_server.url) as page:
        chrome.get(f"{page.url}/tuning")
        yield page
        elsewhere = {each["url"] for each in page.requests() if not each["url"].startswith(f"{page.url}/")}
        assert elsewhere == set()
        assert [each for each in page.complaints() if "Failed to load resource" not in each] == []


def choose_rows(page: Page, folder: Path, *rows: dict[str, Any]) -> None:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page.find("#file").send_keys(str(path))


def test_rows_are_checked_trained_and_followed(
    chrome: Chrome, backend: FakeBackend, tuning: TuningService, tmp_path: Path
) -> None:
    with open_page(chrome, backend, tuning) as page:
        page.until(lambda: page.text("#model") == "fake/model")
        assert not page.find("#start").is_enabled()
        choose_rows(page, tmp_path, ROW, ROW)
        page.until(lambda: page.all(".counts"))
        assert page.texts(".counts dd")[0] == "2" and page.texts(".counts dd")[-1] == "3 s"
        assert page.text("#file-name") == "rows.jsonl"
        page.until(lambda: page.find("#start").is_enabled())
        page.find("#option-n_epochs").send_keys("2")
        page.find("#start").click()
        page.until(lambda: "succeeded" in page.text("#progress"))
        (job,) = tuning.jobs.list(limit=10).values
        assert job.request.hyperparameters == {"n_epochs": 2, "finetuning_type": "lora"}
        assert job.fine_tuned_model and job.fine_tuned_model in page.text("#progress")
        assert (
            page.find("#chart svg").get_attribute("aria-label").startswith("Training loss from 1.00 to 0.10")
        )
        assert any("successfully completed" in text for text in page.texts("#events li"))
        assert page.is_visible("#compare")
        assert chrome.execute_script(NAMELESS) == []


def test_both_models_answer_side_by_side(
    chrome: Chrome, backend: FakeBackend, tuning: TuningService, tmp_path: Path
) -> None:
    with open_page(chrome, backend, tuning) as page:
        page.until(lambda: page.text("#model"))
        choose_rows(page, tmp_path, ROW)
        page.until(lambda: page.find("#start").is_enabled())
        page.find("#start").click()
        page.until(lambda: page.is_visible("#question"))
        page.find("#question").send_keys("Who?", Keys.ENTER)
        page.until(lambda: page.texts(".answer") == ["base", "tuned"])
        base_name, tuned_name = page.texts("#answers h3")
        assert base_name == "fake/model" and tuned_name.startswith("ft:model:local::")


def test_rows_to_evaluate_on_are_chosen_and_removed(
    chrome: Chrome, backend: FakeBackend, tuning: TuningService, tmp_path: Path
) -> None:
    (tmp_path / "valid.jsonl").write_text(json.dumps(ROW) + "\n")
    with open_page(chrome, backend, tuning) as page:
        page.until(lambda: page.text("#model"))
        page.find("#validation").send_keys(str(tmp_path / "valid.jsonl"))
        page.until(lambda: page.text("#validation-name") == "Evaluated on valid.jsonl")
        choose_rows(page, tmp_path, ROW)
        start_job(page, tuning, num_jobs=1)
        page.press("validation-remove")
        page.until(lambda: page.text("#validation-name") == "Choose rows to evaluate on")
        start_job(page, tuning, num_jobs=2)
        without, evaluated = tuning.jobs.list(limit=2).values
        assert evaluated.request.validation and not without.request.validation


@pytest.mark.parametrize(
    ("method", "trains", "hyperparameters"),
    [
        ("kto", "LoRA adapter", {"finetuning_type": "lora", "lora_rank": 8}),
        ("dpo", "all weights", {"finetuning_type": "full"}),
    ],
)
def test_the_menus_choose_the_method_and_what_is_trained(
    chrome: Chrome,
    backend: FakeBackend,
    tuning: TuningService,
    tmp_path: Path,
    method: str,
    trains: str,
    hyperparameters: dict[str, Any],
) -> None:
    with open_page(chrome, backend, tuning) as page:
        page.until(lambda: page.text("#model"))
        page.find("#option-method").send_keys(method)
        page.find("#option-finetuning_type").send_keys(trains)
        page.find("#option-lora_rank").send_keys("8", Keys.TAB)
        choose_rows(page, tmp_path, ROW)
        start_job(page, tuning, num_jobs=1)
        (job,) = tuning.jobs.list(limit=1).values
        assert (job.request.method, job.request.hyperparameters) == (method, hyperparameters)
        page.until(lambda: "succeeded" in page.text("#progress"))


def start_job(page: Page, tuning: TuningService, num_jobs: int) -> None:
    """Press the button, and wait until there are so many jobs."""
    page.until(lambda: page.find("#start").is_enabled())
    page.find("#start").click()
    page.until(lambda: len(tuning.jobs.list(limit=10).values) == num_jobs)


def test_an_invalid_row_is_named(
    chrome: Chrome, backend: FakeBackend, tuning: TuningService, tmp_path: Path
) -> None:
    with open_page(chrome, backend, tuning) as page:
        page.until(lambda: page.text("#model"))
        choose_rows(page, tmp_path, ROW | {"prepare": "invalid"})
        assert page.until(lambda: page.texts("#report .refused")) == ["Line 1: messages is required"]
        assert not page.find("#start").is_enabled()
        (tmp_path / "broken.jsonl").write_text("{\n")
        page.find("#file").send_keys(str(tmp_path / "broken.jsonl"))
        page.until(lambda: page.is_visible("#notice"))
        assert "Line 1" in page.text("#notice")


def test_a_running_job_is_paused_resumed_and_cancelled(
    chrome: Chrome, backend: FakeBackend, tuning: TuningService, tmp_path: Path
) -> None:
    create_job(tuning, {"step_s": 0.05}, steps=10_000)
    with open_page(chrome, backend, tuning) as page:
        page.until(lambda: "running" in page.text("#progress"))
        page.press("job-pause")
        page.until(lambda: "paused" in page.text("#progress"))
        page.press("job-resume")
        page.until(lambda: "running" in page.text("#progress"))
        page.press("job-cancel")
        page.until(lambda: "cancelled" in page.text("#progress"))
        assert page.texts("#job-buttons button") == []


def test_a_key_is_requested_and_sent(chrome: Chrome, backend: FakeBackend, tuning: TuningService) -> None:
    with open_page(chrome, backend, tuning, api_keys=("secret",)) as page:
        page.until(lambda: page.is_visible("#key-value"))
        page.find("#key-value").send_keys("secret", Keys.ENTER)
        page.until(lambda: page.text("#model") == "fake/model")
        assert not page.is_visible("#notice")


def test_the_colours_follow_the_button(chrome: Chrome, backend: FakeBackend, tuning: TuningService) -> None:
    with open_page(chrome, backend, tuning) as page:
        page.until(lambda: page.text("#model"))
        page.press("theme")
        light = chrome.execute_script(CONTRASTS)
        page.press("theme")
        assert chrome.execute_script(CONTRASTS) != light
