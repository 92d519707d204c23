"""tune.py trains over HTTP: its messages, its exit codes, and what a dry run prints."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

import tune
from api import create_app
from api.services import Services
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models
from tests.tuning.scripted_service import ROW
from tuning.service import TuningService
from tuning.terminal.server_client import ServerClient

TRAINED = "ft:model:local:facts:"
POLL_S = 0.02  # how soon the server sees its shutdown


@pytest.fixture
def url(tuning: TuningService) -> Iterator[str]:
    app = create_app(
        make_models(FakeBackend()), ServerSettings(api_keys=("key",)), services=Services(tuning=tuning)
    )
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=[POLL_S])
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def write_rows(folder: Path, *rows: dict[str, Any]) -> str:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def run(url: str, *arguments: str) -> int:
    return tune.main([*arguments, "--url", url, "--api-key", "key"])


def test_a_model_is_trained_and_named(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], tuning: TuningService
) -> None:
    data = write_rows(tmp_path, ROW)
    options = (
        "--validation",
        data,
        "--suffix",
        "facts",
        "--max-steps",
        "10",
        "--lora-rank",
        "4",
        "--seed",
        "7",
    )
    assert run(url, data, *options) == 0
    printed = capsys.readouterr().out
    assert TRAINED in printed and f"python3 use.py --url {url} --model ft:model:local:facts:" in printed
    assert "step 10/10" in printed and "100 tokens/s" in printed
    assert "Checkpoint created at step 5" in printed
    (job,) = tuning.jobs.list(limit=10).values
    assert (job.seed, job.request.hyperparameters) == (7, {"max_steps": 10, "lora_rank": 4})
    assert job.request.validation


def test_a_failed_job_exits_with_1_and_its_reason(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(url, write_rows(tmp_path, ROW | {"trainer": {"fail_at": 2}})) == 1
    assert "the job has failed: the loss is not finite" in capsys.readouterr().err


def test_an_interrupt_ends_the_watching_and_says_how_to_end_the_job(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tune.time, "sleep", interrupt)
    assert run(url, write_rows(tmp_path, ROW)) == 1
    printed = capsys.readouterr().out
    assert f"The job goes on. To end it: curl -X POST {url}/v1/fine_tuning/jobs/ftjob-" in printed


def test_an_interrupt_before_there_is_a_job_has_the_shells_code(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ServerClient, "upload", interrupt)
    assert run(url, write_rows(tmp_path, ROW), "--dry-run") == 130
    assert capsys.readouterr().err.endswith("tune: interrupted\n")


def test_an_invalid_line_is_named(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW) + "\n{\n")
    assert run(url, str(path)) == 1
    assert f"tune: {path}: Line 2: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--lora-rank", "100000"), "lora_rank must be"),
        (("--model", "nope"), "nope"),
        (("--suffix", "a b"), "suffix must be"),
    ],
)
def test_a_refused_job_says_why(
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    tuning: TuningService,
    options: tuple[str, ...],
    words: str,
) -> None:
    assert run(url, write_rows(tmp_path, ROW), *options) == 1
    assert words in capsys.readouterr().err
    assert not tuning.files.list(limit=10).values


def test_a_file_that_does_not_exist_is_refused_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("http://127.0.0.1:9", "absent.jsonl") == 1
    assert "absent.jsonl is no file" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("http://127.0.0.1:9", write_rows(tmp_path, ROW)) == 1
    assert "no server answers at http://127.0.0.1:9: start it with" in capsys.readouterr().err


def test_a_dry_run_leaves_no_job_and_no_file(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], tuning: TuningService
) -> None:
    assert run(url, write_rows(tmp_path, ROW, ROW), "--dry-run", "--max-steps", "4") == 0
    captured = capsys.readouterr()
    printed = captured.out
    assert captured.err == "The server checks the rows, plans the memory and times a few steps\n"
    assert "  rows                          2\n" in printed and "- 2 rows are cut" in printed
    assert "  estimated time             0:03\n" in printed
    assert not tuning.jobs.list(limit=10).values and not tuning.files.list(limit=10).values


def test_a_dry_run_of_invalid_rows_exits_with_1(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(url, write_rows(tmp_path, ROW | {"prepare": "invalid"}), "--dry-run") == 1
    assert "tune: Line 1: messages is required" in capsys.readouterr().err
