"""The command lines of TGI's, Neodim's and h2oGPT's documentation start this server as they stand.

The models have 2,048 tokens of context, as those that h2oGPT names. Only the model, the port and, where
the text has several GPUs, the address differ. ALLOW_OPEN_HOST is set: some listen on all addresses.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from scripts.loopback import free_port
from settings.flags import parse
from settings.sources import KNOWN_NAMES, read_sources, resolve
from tests.servers.forked_main import ForkedMain
from tests.servers.serving import ROOT, wait_until_ready
from tests.tiny_models import tiny

CONTEXT = 2048
TGI_PROMPT = {"inputs": "What?", "parameters": {"max_new_tokens": 1}}
NEODIM_PROMPT = {"prompt": "I walk", "generated_tokens_count": 2, "max_total_tokens": 128, "tfs": 0.95}
OPENAI_PROMPT = {"prompt": "What?", "max_tokens": 1}

TGI_COMMANDS = [
    "--model-id {model} --sharded=false --num-shard 2 --port {port} --disable-custom-kernels",
    "--model-id {model} --max-input-length 2048 --max-total-tokens 4096 --max-stop-sequences 6 "
    "--sharded false --disable-custom-kernels --quantize bitsandbytes --trust-remote-code --port {port}",
]
VLLM_COMMANDS = [
    "--port={port} --host=0.0.0.0 --model {model} --tokenizer=hf-internal-testing/llama-tokenizer "
    "--tensor-parallel-size=1 --seed 1234 --max-num-batched-tokens=8192",
]
NEODIM_COMMANDS = [
    "--model {model} --model-revision=float16 --listen-address=0.0.0.0 --listen-port {port} --layers=0,2",
    "--model={model} --listen-port={port} --layers=a --precision=float32",
    "--model={model} --listen-port={port} --layers=0 --precision=int8",
]


# Their flags are among those of the commands above and of TGI's container: they need no start of their own.
SHORTER_COMMANDS = [
    "--model-id {model} --num-shard 1 --port {port}",
    "--model-id {model} --port {port} --sharded false --trust-remote-code --max-stop-sequences=6",
    "--model={model} --listen-port={port}",
]


@contextmanager
def started(command: str, folder: Path, **variables: str) -> Iterator[str]:
    """The URL of main.py with a documentation's arguments, and variables. Stopped on exit."""
    port = free_port()
    arguments = shlex.split(command.format(model=folder, port=port))
    inherited = {name: value for name, value in os.environ.items() if name not in KNOWN_NAMES}
    environment = inherited | {"HF_HUB_OFFLINE": "1", "ALLOW_OPEN_HOST": "1"} | variables
    process: subprocess.Popen[bytes] | ForkedMain
    if variables:  # the libraries read some when they are imported
        process = subprocess.Popen([sys.executable, "main.py", *arguments], cwd=ROOT, env=environment)
    else:
        process = ForkedMain(arguments, environment)
    try:
        wait_until_ready(f"http://127.0.0.1:{port}", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=60)


def post(url: str, body: dict[str, object]) -> dict[str, object]:
    response = requests.post(url, json=body, timeout=60)
    assert response.ok, response.text
    return dict(response.json())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.llama(tmp_path_factory.mktemp("model"), max_position_embeddings=CONTEXT)


@pytest.mark.parametrize("command", [*TGI_COMMANDS, *VLLM_COMMANDS, *NEODIM_COMMANDS, *SHORTER_COMMANDS])
def test_a_command_is_accepted(command: str) -> None:
    arguments = shlex.split(command.format(model="models/demo", port=7999))
    settings = resolve((*read_sources(ROOT, {"ALLOW_OPEN_HOST": "1"}), parse(arguments).flags))
    assert (settings.model_name, settings.port) == ("models/demo", 7999)


@pytest.mark.slow
@pytest.mark.parametrize("command", TGI_COMMANDS)
def test_a_command_of_tgi_starts(command: str, folder: Path) -> None:
    with started(command, folder) as url:
        assert requests.get(f"{url}/info", timeout=60).json()["max_total_tokens"] == CONTEXT
        assert post(f"{url}/generate", TGI_PROMPT)["generated_text"] is not None


@pytest.mark.slow
def test_the_variables_of_tgis_container_are_those_of_the_docker_command(folder: Path) -> None:
    port = free_port()
    container = {"PORT": str(port), "HUGGINGFACE_HUB_CACHE": "/data", "HOSTNAME": "3c1f7a", "NUM_SHARD": "1"}
    with started("--model-id {model} --num-shard 1 --port {port}", folder, **container) as url:
        assert post(f"{url}/generate", TGI_PROMPT)["generated_text"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("command", VLLM_COMMANDS)
def test_a_command_of_vllm_starts(command: str, folder: Path) -> None:
    with started(command, folder) as url:
        model = requests.get(f"{url}/v1/models", timeout=60).json()["data"][0]["id"]
        assert post(f"{url}/v1/completions", OPENAI_PROMPT | {"model": model})["choices"]


@pytest.mark.slow
@pytest.mark.parametrize("command", NEODIM_COMMANDS)
def test_a_command_of_neodim_starts(command: str, folder: Path) -> None:
    with started(command, folder) as url:
        assert post(f"{url}/generate", NEODIM_PROMPT)["generated_tokens_count"] == 2
