"""What a server says about itself is used only where it has the expected form."""

import asyncio
import socket
from typing import Any

import pytest

from inference.remote import detect as detect_module
from inference.remote.detect import Detected, detect
from inference.remote.http_client import HttpClient
from settings.model_list import parse_entry
from settings.remote_model import RemoteModel
from tests.remote.fake_upstream import FakeUpstream, Reply, Sent, document


def serve(upstream: FakeUpstream, **documents: Any) -> None:
    def reply(sent: Sent) -> Reply:
        name = sent.path.strip("/").rpartition("/")[2] or "root"
        return document(documents[name]) if name in documents else document({}, 404)

    upstream.reply = reply


def ask(upstream: FakeUpstream, loop: asyncio.AbstractEventLoop, prefix: str = "", **keys: Any) -> Detected:
    entry = {"base_model": "up/model", "inference_server": prefix + upstream.url}
    model = parse_entry(1, entry | keys)
    assert isinstance(model, RemoteModel)

    async def run() -> Detected:
        client = HttpClient(model)
        try:
            return await detect(client)
        finally:
            await client.close()

    return asyncio.run_coroutine_threadsafe(run(), loop).result(60)


@pytest.mark.parametrize("context", ["2048", -1, 2.5, True, None, [2048], 10**30])
def test_a_context_that_is_no_count_is_unknown(
    context: Any, upstream: FakeUpstream, loop: asyncio.AbstractEventLoop
) -> None:
    limits = {"max_total_tokens": context, "max_stop_sequences": context}
    serve(upstream, info={"model_id": "m", **limits})
    detected = ask(upstream, loop)
    assert (detected.kind, detected.context, detected.details) == ("tgi", None, {})
    serve(upstream, models={"data": [{"id": "m", "max_model_len": context}]})
    detected = ask(upstream, loop)
    assert (detected.kind, detected.context) == ("vllm", None)


@pytest.mark.parametrize(
    ("card", "version", "kind"),
    [
        ({"owned_by": "sglang"}, "0.5.9", "sglang"),
        ({"owned_by": "vllm"}, "0.10.2", "vllm before 0.11"),
        ({"owned_by": "vllm"}, "0.32.0", "vllm"),
        ({"owned_by": "vllm"}, "nightly", "vllm"),
        ({"owned_by": "local"}, "0.3.0", "vllm"),
    ],
)
def test_sglang_and_older_releases_of_vllm_are_known(
    card: dict[str, Any], version: str, kind: str, upstream: FakeUpstream, loop: asyncio.AbstractEventLoop
) -> None:
    card |= {"id": "m", "max_model_len": 512}
    serve(upstream, models={"data": [card]}, version={"version": version})
    assert ask(upstream, loop, "vllm:").kind == kind


def test_the_context_of_llama_cpp_is_that_of_one_of_its_slots(
    upstream: FakeUpstream, loop: asyncio.AbstractEventLoop
) -> None:
    card = {"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx": 512, "n_ctx_train": 2048}}
    serve(upstream, models={"data": [card]})
    assert (ask(upstream, loop).kind, ask(upstream, loop).context) == ("llama.cpp", 512)


def test_a_list_of_models_may_be_long_and_is_never_cut(
    upstream: FakeUpstream, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = tuple(f"model-{number}" for number in range(5000))
    serve(upstream, models={"data": [{"id": name} for name in names]})
    assert ask(upstream, loop).models == names
    monkeypatch.setattr(HttpClient.get_json, "__defaults__", (1 << 16,))
    assert "describes itself in more than" in ask(upstream, loop).problem


def test_a_list_of_models_with_too_many_lists_is_not_decoded(
    upstream: FakeUpstream, loop: asyncio.AbstractEventLoop
) -> None:
    """A million of them keep all threads waiting for 0.3 s."""
    serve(upstream, models={"data": [[]] * 200_000})
    assert "more than 200000 lists and objects" in ask(upstream, loop).problem


def test_what_a_server_is_known_by_is_short(upstream: FakeUpstream, loop: asyncio.AbstractEventLoop) -> None:
    info = {"model_id": "m", "max_total_tokens": 64, "version": ""}
    serve(upstream, info=info | {"version": "x" * (64 << 10)}, models={"data": [{"id": "m"}]})
    assert ask(upstream, loop).kind == "openai"
    serve(upstream, info=info | {"version": "x" * (60 << 10)}, models={"data": [{"id": "m"}]})
    assert ask(upstream, loop).kind == "tgi"


def test_a_server_that_accepts_no_connection_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux drops what is sent to a socket whose queue is full."""
    monkeypatch.setattr(detect_module, "CONNECT_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as busy:
        host, port = busy.getsockname()
        model = parse_entry(1, {"base_model": "m", "inference_server": f"vllm:http://{host}:{port}"})
        assert isinstance(model, RemoteModel)
        with socket.create_connection((host, port)):
            detected = asyncio.run(detect_module.ask(model))
    assert detected.problem.endswith("no connection in 0.05 s")


@pytest.mark.parametrize("models", [[], {"data": [5]}, {"data": [{"id": "m", "meta": [1]}]}, {"data": {}}])
def test_a_list_of_models_of_another_form_is_a_problem_and_no_traceback(
    models: Any, upstream: FakeUpstream, loop: asyncio.AbstractEventLoop
) -> None:
    serve(upstream, health={"status": "OK"}, models=models)
    detected = ask(upstream, loop)
    assert detected.problem or not detected.models


@pytest.mark.parametrize("prefix", ["", "openai_chat:None:"])
def test_transformers_serve_is_known_by_its_routes(
    prefix: str, upstream: FakeUpstream, loop: asyncio.AbstractEventLoop
) -> None:
    """Its list of models fails where the Hub's cache is missing."""
    serve(upstream, **{"openapi.json": {"paths": {"/load_model": {}, "/reset": {}, "/v1/models": {}}}})
    detected = ask(upstream, loop, prefix)
    assert (detected.kind, detected.models, detected.problem) == ("transformers", (), "")


def test_a_server_that_does_not_say_what_it_is_is_waited_for_as_long_as_its_entry_says(
    upstream: FakeUpstream, loop: asyncio.AbstractEventLoop
) -> None:
    upstream.reply = Reply(["wait"])
    assert ask(upstream, loop, timeouts={"probe": 0.05}).problem == "no answer in 0.05 s"
