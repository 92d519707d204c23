"""Folders, paths and names that no client may load: each is a 4xx with a reason, and nothing changes."""

import json
import os
import pickle
import shutil
import socket
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import torch
from safetensors.torch import load_file, save_file

from tests.lora.demo_adapter import save_adapter
from tests.servers.serving import ServerProcess, serving

pytestmark = pytest.mark.slow

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
LOADS = ("/v1/load_lora_adapter", "/load_lora_adapter")
Spoil = Callable[[Path], None]


def set_config(**values: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / CONFIG
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return spoil


def set_tensor(change: Callable[[torch.Tensor], torch.Tensor], matrix: str = "lora_A") -> Spoil:
    def spoil(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        name = next(name for name in sorted(tensors) if matrix in name)
        tensors[name] = change(tensors[name]).contiguous()
        save_file(tensors, folder / WEIGHTS)

    return spoil


def rename_tensor(to: str) -> Spoil:
    def spoil(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        tensors[to] = tensors.pop(min(tensors))
        save_file(tensors, folder / WEIGHTS)

    return spoil


def write(name: str, content: bytes) -> Spoil:
    return lambda folder: [(folder / name).unlink(missing_ok=True), (folder / name).write_bytes(content)][0]


def claim(shape: list[int], dtype: str = "F32", size: int = 10**10) -> Spoil:
    """A header that promises a tensor of this shape, in a file that ends behind the header."""
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    header = json.dumps({name: {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}).encode()
    return write(WEIGHTS, struct.pack("<Q", len(header)) + header)


def pickled_only(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / "adapter_model.bin").write_bytes(pickle.dumps(print))


def link(name: str, target: str) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(target)

    return spoil


def zip_slip(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    with zipfile.ZipFile(folder / WEIGHTS, "w") as archive:
        archive.writestr("../../escaped", "x")


HOSTILE: dict[str, Spoil] = {
    "pickle": pickled_only,
    "pickle under another name": write(WEIGHTS, pickle.dumps({"a": 1})),
    "zip": zip_slip,
    "no config": lambda folder: (folder / CONFIG).unlink(),
    "no weights": lambda folder: (folder / WEIGHTS).unlink(),
    "empty config": write(CONFIG, b""),
    "config is a list": write(CONFIG, b"[]"),
    "config is binary": write(CONFIG, bytes(range(256))),
    "deep config": write(CONFIG, b'{"a":' * 5000 + b"1" + b"}" * 5000),
    "large config": write(CONFIG, b'{"a": "' + b"x" * 2_000_000 + b'"}'),
    "config with NaN": write(CONFIG, b'{"peft_type": "LORA", "r": 8, "lora_alpha": NaN}'),
    "empty weights": write(WEIGHTS, b""),
    "header beyond the file": write(WEIGHTS, struct.pack("<Q", 2**40)),
    "header of 10 GB": write(WEIGHTS, struct.pack("<Q", 10**10) + b"{}"),
    "header is no JSON": write(WEIGHTS, struct.pack("<Q", 4) + b"abcd"),
    "claim of 10 GB": claim([8, 312_500_000]),
    "claim of a negative shape": claim([-8, 192]),
    "claim of 1e18 values": claim([10**9, 10**9]),
    "pickled dtype": claim([8, 192], dtype="OBJECT", size=6144),
    "config links out": link(CONFIG, "/etc/passwd"),
    "weights link out": link(WEIGHTS, "/dev/zero"),
    "weights link to memory": link(WEIGHTS, "/proc/self/mem"),
    "weights link to themselves": link(WEIGHTS, WEIGHTS),
    "rank 1e9": set_config(r=10**9),
    "rank 0": set_config(r=0),
    "rank is text": set_config(r="8"),
    "rank is fractional": set_config(r=8.5),
    "another rank": set_config(r=16),
    "rank pattern of 1e9": set_config(rank_pattern={"q_proj": 10**9}),
    "regular expression that never ends": set_config(rank_pattern={"(a+)+$": 8}),
    "alpha is infinite": set_config(lora_alpha="Infinity"),
    "IA3": set_config(peft_type="IA3"),
    "PiSSA": set_config(init_lora_weights="pissa"),
    "activated LoRA": set_config(alora_invocation_tokens=[1]),
    "replicated layers": set_config(layer_replication=[[0, 4]]),
    "NaN": set_tensor(lambda tensor: tensor * float("nan")),
    "infinite": set_tensor(lambda tensor: tensor + float("inf"), "lora_B"),
    "wrong width": set_tensor(lambda tensor: tensor[:, :-1]),
    "wrong height": set_tensor(lambda tensor: torch.cat([tensor, tensor]), "lora_B"),
    "no dimensions": set_tensor(lambda tensor: tensor.sum()),
    "integers": set_tensor(lambda tensor: tensor.to(torch.int32)),
    "unknown module": rename_tensor("base_model.model.model.layers.0.self_attn.x_proj.lora_A.weight"),
    "unknown key": rename_tensor("base_model.model.model.layers.0.self_attn.q_proj.lora_C.weight"),
    "a layer too many": rename_tensor("base_model.model.model.layers.999.self_attn.q_proj.lora_A.weight"),
    "key with a path": rename_tensor("../../etc/passwd"),
    "overflow": set_tensor(lambda tensor: tensor * 1e38, "lora_B"),
}  # fmt: skip


@pytest.fixture(scope="module")
def fence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of ADAPTER_DIRS, with an adapter that can be served."""
    folder = tmp_path_factory.mktemp("fence")
    save_adapter(folder / "good", seed=1)
    return folder


@pytest.fixture(scope="module")
def outside() -> Iterator[socket.socket]:
    """A listener that stands for every other host: nothing may connect to it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


@pytest.fixture(scope="module")
def server(fence: Path, outside: socket.socket) -> Iterator[ServerProcess]:
    proxy = f"http://127.0.0.1:{outside.getsockname()[1]}"
    with pytest.MonkeyPatch.context() as environment:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            environment.setenv(name, proxy)
        environment.setenv("NO_PROXY", "127.0.0.1")
        with serving("--adapter-dirs", str(fence), "--lora-adapters", f"good={fence / 'good'}") as running:
            yield running


@pytest.fixture
def unchanged(server: ServerProcess, outside: socket.socket) -> Iterator[None]:
    """After the test the adapters and the answers are as before, and nothing has called another host."""
    before = state(server)
    yield
    assert state(server) == before
    with pytest.raises(BlockingIOError):
        outside.accept()


def state(server: ServerProcess) -> list[Any]:
    names = [card["id"] for card in requests.get(f"{server.url}/v1/models", timeout=60).json()["data"]]
    bodies = [
        {"model": name, "prompt": "The capital of France is", "temperature": 0, "max_tokens": 4}
        for name in names
    ]
    return [names, *(server.post("/v1/completions", body).json()["choices"] for body in bodies)]


def check_refusal(reply: requests.Response) -> str:
    """A 4xx in the dialect's form, without paths of this machine. Returns the message."""
    assert 400 <= reply.status_code < 500, reply.text
    body = reply.json()
    message = str(body["error"]["message"] if "error" in body else body["error_message"])
    assert message and len(message) < 500
    assert "Traceback" not in message
    return message


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.usefixtures("unchanged")
def test_a_folder_that_cannot_be_served_is_refused(server: ServerProcess, fence: Path, kind: str) -> None:
    folder = fence / "bad"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(fence / "good", folder)
    HOSTILE[kind](folder)
    for path in LOADS:
        message = check_refusal(server.post(path, {"lora_name": "bad", "lora_path": "bad"}))
        assert str(fence) not in message
    reply = server.post(LOADS[0], {"lora_name": "good", "lora_path": "bad", "load_inplace": True})
    check_refusal(reply)
    assert not (fence.parent / "escaped").exists()


@pytest.mark.parametrize(
    "path",
    [
        "/etc", "/", "..", "../", "/proc/self/cwd", "/dev", "{fence}/../{name}/../..", "good/../..",
        "~root", "file:///etc", "http://169.254.169.254/latest", "https://example.com/x", "//host/share",
        "\\\\host\\x", "good\x00", "\x00", "x" * 100_000, "%2e%2e/%2e%2e/etc", "....//....//etc",
        "good/adapter_config.json", "acme/none", "acme/none@../../../etc", "s3://bucket/x", "$HOME", "`id`",
        "{fence}", " ", "good ", "\n",
    ],
)  # fmt: skip
@pytest.mark.usefixtures("unchanged")
def test_a_path_that_leaves_the_fence_is_refused(server: ServerProcess, fence: Path, path: str) -> None:
    path = path.format(fence=fence, name=fence.name)
    for route in LOADS:
        message = check_refusal(server.post(route, {"lora_name": "new", "lora_path": path}))
        assert message.startswith("lora_path must be the folder of an adapter below ADAPTER_DIRS")


@pytest.mark.usefixtures("unchanged")
def test_the_words_do_not_say_whether_something_is_there(server: ServerProcess) -> None:
    messages = {
        check_refusal(server.post(LOADS[0], {"lora_name": "new", "lora_path": path})).replace(path, "…")
        for path in ("/etc", "/none", "/root", "/etc/shadow", os.getcwd(), "/proc/1/root")
    }
    assert len(messages) == 1


BODIES: list[Any] = [
    None, [], "x", 7, True, {}, {"lora_name": None, "lora_path": None}, {"lora_name": [], "lora_path": {}},
    {"lora_name": 7, "lora_path": "good"}, {"lora_name": "new", "lora_path": ["good"]},
    {"lora_name": "new"}, {"lora_path": "good"}, {"lora_name": "", "lora_path": "good"},
    {"lora_name": "models/demo", "lora_path": "good"}, {"lora_name": "demo", "lora_path": "good"},
    {"lora_name": "../x", "lora_path": "good"}, {"lora_name": "x/../y", "lora_path": "good"},
    {"lora_name": "x" * 10_000, "lora_path": "good"}, {"lora_name": "a\nb", "lora_path": "good"},
    {"lora_name": "<script>", "lora_path": "good"}, {"lora_name": "good", "lora_path": "good"},
    {"lora_name": "new", "lora_path": "good", "load_inplace": "perhaps"},
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body)[:60])
@pytest.mark.usefixtures("unchanged")
def test_a_malformed_body_is_refused(server: ServerProcess, body: Any) -> None:
    check_refusal(server.post(LOADS[0], body))
    if not (isinstance(body, dict) and "load_inplace" in body):  # SGLang has no such field
        check_refusal(server.post(LOADS[1], body))


@pytest.mark.parametrize("name", ["none", "", "models/demo", "x" * 10_000, "../good", "good/", "GOOD"])
@pytest.mark.usefixtures("unchanged")
def test_what_is_no_adapter_is_not_unloaded(server: ServerProcess, name: str) -> None:
    for route in ("/v1/unload_lora_adapter", "/unload_lora_adapter"):
        check_refusal(server.post(route, {"lora_name": name}))
    if name not in ("", "../good"):  # other paths
        check_refusal(requests.delete(f"{server.url}/v1/models/{name}", timeout=60))
