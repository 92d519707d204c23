"""gradio 3's queue: an answer that arrives over a WebSocket."""

import ast
import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import WSCloseCode, WSMsgType, web

from inference.errors import Overloaded, ServerError
from inference.events import Finished, Token
from inference.remote.upstreams.gradio.functions import GradioFunctions
from inference.types import GenerationRequest
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import wait_until

FUNCTIONS = GradioFunctions("", num_states=2, has_model_names=False, fn_index=7)
Messages = list[dict[str, Any]]


class Queue:
    """A server with gradio 3's queue. messages: after the arguments; received: from the client."""

    def __init__(self) -> None:
        self.messages: Messages = []
        self.received: Messages = []
        self.left_at = 0.0
        self.port = 0

    async def join(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        for name in ("send_hash", "send_data"):
            await socket.send_json({"msg": name})
            self.received.append(await socket.receive_json())
            await socket.send_json({"msg": "estimation", "rank": 0})
        for message in self.messages:
            await socket.send_json(message)
        if (await socket.receive()).type is not WSMsgType.TEXT:
            self.left_at = time.monotonic()
        await socket.close(code=WSCloseCode.OK)
        return socket


@pytest.fixture
def queue(loop: asyncio.AbstractEventLoop) -> Iterator[Queue]:
    queue, app = Queue(), web.Application()
    app.router.add_get("/queue/join", queue.join)
    runner = web.AppRunner(app)

    async def listen() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        queue.port = runner.addresses[0][1]

    asyncio.run_coroutine_threadsafe(listen(), loop).result(60)
    yield queue
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(60)


def say(text: str, name: str = "process_generating", **saved: int) -> dict[str, Any]:
    result = {"response": text, "error": "", "save_dict": {"extra_dict": saved}}
    return {"msg": name, "success": True, "output": {"data": [str(result)], "is_generating": True}}


def stream_of(queue: Queue, open_upstream: OpenModel) -> Any:
    server = f"gradio:http://127.0.0.1:{queue.port}"
    backend = open_upstream("gradio", functions=FUNCTIONS, inference_server=server)
    return backend.generate(GenerationRequest(CHAT))


def test_an_answer_is_streamed(queue: Queue, open_upstream: OpenModel) -> None:
    queue.messages = [say("The"), say("The cap"), say("The cap", "process_completed", ntokens=2)]
    *events, end = stream_of(queue, open_upstream)
    assert [each.text for each in events if isinstance(each, Token)] == ["The", " cap"]
    assert end == Finished(0, "stop", num_tokens=2)
    session, call = queue.received
    assert session == {"fn_index": 7, "session_hash": call["session_hash"]}
    *states, arguments = call["data"]
    assert states == [None, None] and ast.literal_eval(arguments)["stream_output"] is True


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"msg": "process_completed", "success": False, "output": {"error": "x"}}, "ended with an error"),
        ({"msg": "process_generating", "success": True}, "has no output"),
    ],
)
def test_a_broken_answer_is_never_a_whole_one(
    message: dict[str, Any], error: str, queue: Queue, open_upstream: OpenModel
) -> None:
    queue.messages = [say("The"), message]
    with pytest.raises(ServerError, match=error):
        list(stream_of(queue, open_upstream))


def test_a_full_queue_is_overloaded(
    queue: Queue, open_upstream: OpenModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.remote.members.member.DEFAULT_RETRY_AFTER_S", 0.01)
    queue.messages = [{"msg": "queue_full"}]
    with pytest.raises(Overloaded):
        list(stream_of(queue, open_upstream))


def test_a_client_that_leaves_is_noticed_at_once(queue: Queue, open_upstream: OpenModel) -> None:
    queue.messages = [say("The")]
    stream = stream_of(queue, open_upstream)
    assert any(isinstance(each, Token) for each in stream)
    left_at = time.monotonic()
    stream.close()
    wait_until(lambda: queue.left_at > 0)
    assert queue.left_at - left_at < 30.0
