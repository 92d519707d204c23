"""Starting: what is answered at once, what a start prints, and that it serves and stops."""

import json
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
import torch

import main
from settings.layers import KNOWN
from tests import hub, tiny

ROOT = Path(__file__).parent.parent
PATIENCE_S = 120
OURS = {name: value for name, value in os.environ.items() if name not in KNOWN}


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "main.py"), *arguments]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=PATIENCE_S, env=OURS | environment
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server that is ready, and its URL."""
    port = free_port()
    process = subprocess.Popen(
        command(f"--port={port}", *arguments), text=True, stdout=subprocess.PIPE, env=OURS
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(process, url)
        yield process, url
    finally:
        process.kill()
        process.communicate()


def wait_for(process: subprocess.Popen[str], url: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        assert process.poll() is None, "the server has ended"
        try:
            if requests.get(f"{url}/health", timeout=5).ok:
                return
        except requests.ConnectionError:
            time.sleep(0.1)
    raise AssertionError("the server does not get ready")


def test_the_version_is_the_projects(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--version"]) == 0
    assert capsys.readouterr().out == f"hearth {main.version()}\n"


def test_help_is_answered_before_any_library_is_loaded() -> None:
    code = (
        "import sys, main; main.main(['--help']); sys.exit('torch' in sys.modules or 'flask' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=OURS)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "--model-name" in answer.stdout


def test_a_wrong_flag_ends_the_start_with_one_line() -> None:
    answer = run("--prot=9000")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "hearth: --prot is not a flag; did you mean --port?; --help lists them all\n"


def test_a_wrong_value_in_the_environment_ends_the_start_with_one_line() -> None:
    answer = run(PORT="web")
    assert answer.returncode == 2
    assert answer.stderr == "hearth: environment: PORT must be a whole number, 0 to 65535, not 'web'\n"


def test_what_cannot_be_done_yet_ends_the_start_with_one_line() -> None:
    answer = run("--lora-adapters", "a", HOSTNAME="box")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("hearth: flags: --lora-adapters a: ") and answer.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_environment_is_told_for_a_report() -> None:
    answer = run("-e")
    assert answer.returncode == 0
    told = dict(line.split(maxsplit=1) for line in answer.stdout.splitlines())
    assert told["hearth"] == main.version() and told["python"] == platform.python_version()


@pytest.mark.slow
def test_prompts_that_leave_no_room_in_the_context_are_refused(tmp_path: Path) -> None:
    answer = run("--check", f"--model-id={tiny.llama(tmp_path)}", "--port=0", "--max-input-tokens=512")
    assert answer.returncode == 1
    assert "`max_input_tokens`(512) must be < `max_total_tokens`(512)" in answer.stdout


@pytest.mark.slow
def test_a_start_with_tgis_flags_obeys_them(tmp_path: Path) -> None:
    figures = free_port()
    line = (
        f"--model-id {tiny.llama(tmp_path)} --served-names mine --sharded=false --num-shard 1 "
        f"--max-input-length 20 --max-total-tokens 40 --rope-factor 2 --json-output "
        f"--prometheus-port {figures} --disable-grammar-support --validation-workers 2"
    )
    with serving(*line.split()) as (_, url):
        info = requests.get(f"{url}/info", timeout=60).json()
        assert (info["max_input_tokens"], info["max_total_tokens"], info["validation_workers"]) == (20, 40, 2)
        long = {"model": "mine", "content": "long " * 5}
        refused = requests.post(f"{url}/inference/completion", json=long, timeout=60)
        assert refused.status_code == 400 and "at most 20 tokens" in refused.text
        told = requests.get(f"http://127.0.0.1:{figures}/metrics", timeout=60)
        assert told.ok and "hearth_steps_total" in told.text


@pytest.mark.slow
def test_a_start_with_neodims_flags_falls_back_to_the_cpu(tmp_path: Path) -> None:
    with serving(f"--model={tiny.llama(tmp_path)}", "--layers=a", "--precision=original") as (_, url):
        info = requests.get(f"{url}/info", timeout=60).json()
        device = "cuda" if torch.cuda.is_available() else "cpu"
        assert (info["model_dtype"], info["model_device_type"]) == ("bfloat16", device)


@pytest.mark.slow
def test_a_download_fetches_and_stops(tmp_path: Path) -> None:
    place = {"CACHE_DIR": str(tmp_path / "cache"), "MODEL_NAME": "acme/tiny"}
    with hub.running() as fake:
        fake.repos["acme/tiny"] = hub.Repo(tiny.llama(tmp_path / "tiny"))
        old = run("--download", HF_ENDPOINT=fake.url, **place)
        fake.repos["acme/tiny"].version = 2
        answer = run("--download", HF_ENDPOINT=fake.url, **place)
    folder = Path(answer.stdout.splitlines()[-1])
    assert answer.returncode == 0 and (folder / "model.safetensors").is_file()
    assert Path(old.stdout.splitlines()[-1]).parent == folder.parent != folder  # another version
    again = run("--download", "--offline", **place)
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, str(folder))


@pytest.mark.slow
def test_a_download_that_is_refused_fetches_nothing(tmp_path: Path) -> None:
    place = {"CACHE_DIR": str(tmp_path / "cache"), "MODEL_NAME": "acme/tiny"}
    with hub.running() as fake:
        folder = tiny.llama(tmp_path / "tiny")
        fake.repos["acme/tiny"] = hub.Repo(folder)
        answer = run("--download", "--context=100000", HF_ENDPOINT=fake.url, **place)
        assert answer.returncode == 1 and "NO" in answer.stdout
        size = int.from_bytes((folder / "model.safetensors").read_bytes()[:8], "little")
        assert sum(request.sent for request in fake.got("model.safetensors")) == 8 + size  # its header alone


def test_a_missing_package_is_named_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.missing(ModuleNotFoundError("no", name="flask.json")) == 1
    told = capsys.readouterr().err
    assert "package flask is not installed" in told and "scripts/setup.sh" in told


def test_too_little_memory_for_the_libraries_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> int:
        raise MemoryError

    monkeypatch.setattr(main.guess, "memory", none)
    assert main.launch(main.resolve(main.layers(main.flags.parse([]).flags)), frozenset({"--check"})) == 1
    told = capsys.readouterr().err
    assert "ulimit -d" in told and len(told.splitlines()) == 1


def test_a_missing_module_of_our_own_is_a_bug() -> None:
    with pytest.raises(ModuleNotFoundError):
        main.missing(ModuleNotFoundError("no", name="checks.nothing"))


@pytest.mark.slow
def test_check_gives_its_verdict_as_json_and_stops(tmp_path: Path) -> None:
    answer = run("--check", "--json", f"--model={tiny.llama(tmp_path)}", "--port=0")
    assert (answer.returncode, json.loads(answer.stdout)["ok"]) == (0, True)


@pytest.mark.slow
def test_a_model_that_is_not_there_is_refused_with_a_table() -> None:
    answer = run("--model=models/nothing", "--port=0")
    assert answer.returncode == 1
    assert ["access", "NO", "models/nothing"] in [line.split()[:3] for line in answer.stdout.splitlines()]
    assert "Traceback" not in answer.stderr


@pytest.mark.slow
def test_a_start_ends_with_answers_and_a_stop_with_code_0(tmp_path: Path) -> None:
    with serving(f"--model={tiny.llama(tmp_path)}", "--served-names=mine", "--default-max-tokens=3") as (
        process,
        url,
    ):
        body = {"model": "mine", "content": "hi"}
        answer = requests.post(f"{url}/inference/completion", json=body, timeout=60)
        assert answer.ok, answer.text
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


@pytest.mark.slow
def test_keys_from_the_settings_are_asked_for(tmp_path: Path) -> None:
    with serving(
        f"--model={tiny.llama(tmp_path)}",
        "--api-keys=sesame",
        "--served-names=mine",
        "--default-max-tokens=3",
    ) as (
        _,
        url,
    ):
        ask = {
            "url": f"{url}/inference/completion",
            "json": {"model": "mine", "content": "hi"},
            "timeout": 60,
        }
        assert requests.post(**ask).status_code == 401
        assert requests.post(**ask, headers={"Authorization": "Bearer sesame"}).ok
