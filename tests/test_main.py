"""Starting the server: immediate answers, the printed output, serving and stopping."""

import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import requests
import torch

import main
from scripts.loopback import free_port
from tests.fakes import fake_hub
from tests.servers.certificate import make_certificate
from tests.servers.forked_main import ForkedMain, ForkedProcess, run_to_end
from tests.servers.main_process import OURS, ROOT, TIMEOUT_S, wait_for
from tests.tiny_models import tiny

CHECK_DOWNLOAD_FOLDER = """
import importlib, os
from huggingface_hub import constants
from hub.resolve import make_hub
from main import prepare_environment
from tests.settings.parsed_settings import parsed_settings

os.environ.clear()
os.environ.update(environment)
settings = parsed_settings()
prepare_environment(settings)
importlib.reload(constants)  # it reads the environment, as when it is first imported
assert str(make_hub(settings).cache_dir) == folder, make_hub(settings).cache_dir
"""
MainProcess = subprocess.Popen[bytes] | ForkedMain
StartMain = Callable[[list[str], dict[str, str]], MainProcess]


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "main.py"), *arguments]


def execute(arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """main.py itself, started as ForkedMain starts a fork."""
    return subprocess.Popen(command(*arguments), env=environment, cwd=ROOT)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=TIMEOUT_S, env=OURS | environment
    )


def run_fork(*arguments: str) -> subprocess.CompletedProcess[str]:
    """As `run` does, after the libraries were imported."""
    return run_to_end([*arguments], OURS)


@contextmanager
def serving(
    *arguments: str, first: tuple[str, ...] = (), certificate: str = "", start: StartMain = ForkedMain
) -> Iterator[tuple[MainProcess, str]]:
    """A server that is ready, and its URL. `first`: its first arguments. `certificate`: of its HTTPS."""
    port = free_port()
    process = start([*first, f"--port={port}", *arguments], OURS)
    url = f"{'https' if certificate else 'http'}://127.0.0.1:{port}"
    try:
        wait_for(process, url, certificate)
        yield process, url
    finally:
        process.kill()
        process.wait(timeout=TIMEOUT_S)


def test_the_version_is_the_projects(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--version"]) == 0
    assert capsys.readouterr().out == f"hearth {main.version()}\n"


def test_help_is_printed_before_any_library_is_loaded() -> None:
    code = (
        "import sys, main; main.main(['--help']); sys.exit('torch' in sys.modules or 'flask' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=OURS)
    assert (result.returncode, result.stderr) == (0, "")
    assert "--model-name" in result.stdout


@pytest.mark.system("posix")
def test_output_that_is_not_read_to_its_end_causes_no_traceback() -> None:
    line = f"{sys.executable} {ROOT / 'main.py'} --help | true; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=OURS)
    assert (result.stderr, result.stdout) == ("", "141\n")


def test_a_wrong_flag_ends_the_start_with_one_line() -> None:
    result = run("--prot=9000")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "hearth: --prot is not a flag; did you mean --port?; --help lists them all\n"


def test_a_wrong_value_in_the_environment_ends_the_start_with_one_line() -> None:
    result = run(PORT="web")
    assert result.returncode == 2
    assert result.stderr == "hearth: environment: PORT must be a whole number, 0 to 65535, not 'web'\n"


def test_an_unsupported_flag_ends_the_start_with_one_line() -> None:
    result = run("--otlp-endpoint", "a", HOSTNAME="box")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("hearth: flags: --otlp-endpoint a: ") and result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"TRANSFORMERS_CACHE": "/t", "HF_HOME": "/home"}, "/t"),
        ({"TRANSFORMERS_CACHE": "/t", "HF_HUB_CACHE": "/hub"}, "/hub"),
        ({"HF_HOME": "/home"}, "/home/hub"),
    ],
)
def test_the_environments_download_folder_is_the_one_of_transformers(
    variables: dict[str, str], folder: str
) -> None:
    environment = {name: value for name, value in OURS.items() if not name.startswith("HF_")} | variables
    process = ForkedProcess(exec, CHECK_DOWNLOAD_FOLDER, {"environment": environment, "folder": folder})
    assert process.wait(TIMEOUT_S) == 0


@pytest.mark.slow
def test_the_environment_is_printed_for_a_report() -> None:
    result = run("-e")
    assert result.returncode == 0
    versions = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert versions["hearth"] == main.version() and versions["python"] == platform.python_version()


@pytest.mark.slow
def test_prompts_that_leave_no_room_in_the_context_are_refused(tmp_path: Path) -> None:
    result = run_fork("--check", f"--model-id={tiny.llama(tmp_path)}", "--port=0", "--max-input-tokens=512")
    assert result.returncode == 1
    assert "`max_input_tokens`(512) must be < `max_total_tokens`(512)" in result.stdout


@pytest.mark.slow
def test_a_start_obeys_tgis_flags(tmp_path: Path) -> None:
    metrics_port = free_port()
    line = (
        f"--model-id {tiny.llama(tmp_path)} --served-names mine --sharded=false --num-shard 1 "
        f"--max-input-length 20 --max-total-tokens 40 --rope-factor 2 --json-output "
        f"--prometheus-port {metrics_port} --disable-grammar-support --validation-workers 2"
    )
    with serving(*line.split()) as (_, url):
        info = requests.get(f"{url}/info", timeout=60).json()
        assert (info["max_input_tokens"], info["max_total_tokens"], info["validation_workers"]) == (20, 40, 2)
        long = {"model": "mine", "content": "long " * 5}
        refused = requests.post(f"{url}/inference/completion", json=long, timeout=60)
        assert refused.status_code == 400 and "at most 20 tokens" in refused.text
        response = requests.get(f"http://127.0.0.1:{metrics_port}/metrics", timeout=60)
        assert response.ok and "hearth_steps_total" in response.text


@pytest.mark.slow
def test_a_start_obeys_a_command_line_of_vllm(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    command_line = (
        "--dtype float --max-model-len 64 --max-num-seqs 4 --served-model-name tiny --api-key sesame "
        "--seed 3 --gpu-memory-utilization 0.9 -tp 1 --swap-space 4 --disable-log-requests --root-path /llm "
        '--allowed-origins ["https://a.example"] --allow-credentials '
        f"--ssl-certfile {certificate} --ssl-keyfile {key} --chat-template"
    )
    arguments = (*command_line.split(), template)
    with serving(*arguments, first=("serve", "models/demo"), certificate=str(certificate)) as (_, url):
        session = requests.Session()
        session.trust_env, session.verify = False, str(certificate)
        session.headers = {"Authorization": "Bearer sesame", "Origin": "https://a.example"}
        models = session.get(f"{url}/llm/v1/models", timeout=60)
        assert {"tiny", "models/demo"} == {card["id"] for card in models.json()["data"]}
        assert models.json()["data"][0]["max_model_len"] == 64
        assert models.headers["Access-Control-Allow-Credentials"] == "true"
        body = {"model": "tiny", "messages": [{"role": "user", "content": "Once"}], "max_tokens": 8}
        chats = [session.post(f"{url}/v1/chat/completions", json=body, timeout=60).json() for _ in range(2)]
        assert chats[0]["choices"] == chats[1]["choices"]
        assert chats[0]["usage"]["prompt_tokens"] == 1
        assert requests.get(f"{url}/v1/models", verify=str(certificate), timeout=60).status_code == 401


@pytest.mark.slow
def test_a_start_obeys_a_command_line_of_llama_cpp(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("sesame\n")
    command_line = (
        f"-m models/demo -c 64 -ngl 99 -t 1 -np 2 -b 32 -fa on --mlock --no-mmap --jinja -n 5 -a tiny "
        f"--api-key-file {keys} --api-prefix /llm --metrics"
    )
    with serving(*command_line.split()) as (_, url):
        headers = {"Authorization": "Bearer sesame"}
        body = {"model": "tiny", "messages": [{"role": "user", "content": "Once"}]}
        for path in ("/v1/chat/completions", "/llm/v1/chat/completions"):
            chat = requests.post(f"{url}{path}", json=body, headers=headers, timeout=60).json()
            assert 1 <= chat["usage"]["completion_tokens"] <= 5
        card = requests.get(f"{url}/v1/models", headers=headers, timeout=60).json()["data"][0]
        assert (card["id"], card["max_model_len"]) == ("models/demo", 64)


@pytest.mark.slow
def test_a_start_with_neodims_flags_falls_back_to_the_cpu(tmp_path: Path) -> None:
    with serving(f"--model={tiny.llama(tmp_path)}", "--layers=a", "--precision=original") as (_, url):
        info = requests.get(f"{url}/info", timeout=60).json()
        device = "cuda" if torch.cuda.is_available() else "cpu"
        assert (info["model_dtype"], info["model_device_type"]) == ("bfloat16", device)


@pytest.mark.slow
def test_a_download_fetches_and_stops(tmp_path: Path) -> None:
    settings = {"CACHE_DIR": str(tmp_path / "cache"), "MODEL_NAME": "acme/tiny"}
    with fake_hub.running() as fake:
        fake.repos["acme/tiny"] = fake_hub.Repo(tiny.llama(tmp_path / "tiny"))
        first = run("--download", HF_ENDPOINT=fake.url, **settings)
        fake.repos["acme/tiny"].version = 2
        result = run("--download", HF_ENDPOINT=fake.url, **settings)
    folder = Path(result.stdout.splitlines()[-1])
    assert result.returncode == 0 and (folder / "model.safetensors").is_file()
    assert Path(first.stdout.splitlines()[-1]).parent == folder.parent != folder  # another version
    again = run("--download", "--offline", **settings)
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, str(folder))


@pytest.mark.slow
def test_a_refused_download_fetches_nothing(tmp_path: Path) -> None:
    settings = {"CACHE_DIR": str(tmp_path / "cache"), "MODEL_NAME": "acme/tiny"}
    with fake_hub.running() as fake:
        folder = tiny.llama(tmp_path / "tiny")
        fake.repos["acme/tiny"] = fake_hub.Repo(folder)
        result = run("--download", "--max-input-tokens=512", HF_ENDPOINT=fake.url, **settings)
        assert result.returncode == 1 and "NO" in result.stdout
        size = int.from_bytes((folder / "model.safetensors").read_bytes()[:8], "little")
        sent = sum(request.sent for request in fake.gets_of("model.safetensors"))
        assert sent == 8 + size  # its header alone


def test_a_missing_package_is_named_with_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.report_missing_package(ModuleNotFoundError("no", name="flask.json")) == 1
    message = capsys.readouterr().err
    assert "package flask is not installed" in message and "scripts/setup.sh" in message


@pytest.mark.system("linux")
def test_too_little_memory_for_the_libraries_is_reported_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main.memory_shortage, "read_free_address_space", lambda: 600_000_000)
    assert main.start(main.resolve(main.read_sources(main.HOME, os.environ)), frozenset({"--check"})) == 1
    message = capsys.readouterr().err
    assert "ulimit -d" in message and len(message.splitlines()) == 1


@pytest.mark.system("linux")
@pytest.mark.parametrize("error", [MemoryError(), OSError(12, "Cannot allocate memory")])
def test_too_little_memory_for_the_action_is_reported_in_one_line(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_error() -> int:
        raise error

    # This process has imported the libraries; deferred, they would be others for the next tests.
    monkeypatch.setattr(main, "fast_imports", lambda *, is_sharded: nullcontext())
    monkeypatch.setattr(main.prefault_estimate, "estimate_free_bytes", raise_error)
    assert main.start(main.resolve(main.read_sources(main.HOME, os.environ)), frozenset({"--check"})) == 1
    message = capsys.readouterr().err
    assert "not enough memory (" in message and "raise ulimit -v" in message
    assert len(message.splitlines()) == 1


def test_a_missing_module_of_the_project_is_a_bug() -> None:
    with pytest.raises(ModuleNotFoundError):
        main.report_missing_package(ModuleNotFoundError("no", name="checks.nothing"))


@pytest.mark.slow
def test_check_prints_its_verdict_as_json_and_stops(tmp_path: Path) -> None:
    result = run_fork("--check", "--json", f"--model={tiny.llama(tmp_path)}", "--port=0")
    report = json.loads(result.stdout)
    assert (result.returncode, report["ok"]) == (0, True)
    assert report["speed"]["tokens_per_second"] > 0 and report["speed"]["first_token_seconds"] > 0


@pytest.mark.slow
def test_a_missing_model_is_refused_with_a_table() -> None:
    result = run_fork("--model=models/nothing", "--port=0")
    assert result.returncode == 1
    assert ["access", "NO", "models/nothing"] in [line.split()[:3] for line in result.stdout.splitlines()]
    assert "Traceback" not in result.stderr


@pytest.mark.system("posix")
@pytest.mark.slow
def test_a_started_server_requires_its_key_and_stops_with_code_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("--served-names=mine", "--default-max-tokens=3", "--api-keys=sesame")
    arguments = (f"--model={tiny.llama(tmp_path)}", *flags)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setitem(OURS, "TMPDIR", str(temporary))
    with serving(*arguments, start=execute) as (process, url), requests.Session() as client:
        body = {"model": "mine", "content": "hi"}
        assert client.post(f"{url}/inference/completion", json=body, timeout=60).status_code == 401
        client.headers = {"Authorization": "Bearer sesame"}
        for name in ("mine", str(tmp_path), tmp_path.name):
            response = client.post(f"{url}/inference/completion", json=body | {"model": name}, timeout=60)
            assert response.ok, response.text
        assert str(tmp_path) not in client.get(f"{url}/v1/models", timeout=60).text
        assert not [*temporary.glob("hearth-*")], "it would stay behind if the server was killed"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
