"""The servers that real clients talk to: one with the demo model, one that follows a script."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from api import create_app
from api.front.serve import Front, serve
from api.settings import AppSettings
from inference.errors import Overloaded, Unavailable
from inference.types import Alternative, CallDelta, Finished, GenerationRequest, Message, Started, Token
from tests.fake_backend import FakeBackend, Script, say
from tests.serving import serving

ANSWER = ("The", " capital", " of", " France", " is", " Paris", ".")
SHAPED = ('{"capital"', ': "Paris"}')
CALL: Script = [
    Started(0, prompt_tokens=3, cached_tokens=0),
    CallDelta(0, 0, "call-1", "get_weather", '{"city": ', done=False),
    CallDelta(0, 0, "call-1", "get_weather", '"Paris"}', done=True),
    Finished(0, "stop", tokens=9),
]


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of `python main.py` with the demo model."""
    with serving() as running:
        yield running.url


@pytest.fixture(scope="session")
def scripted() -> Iterator[str]:
    """The address of a server whose answers are known word by word."""
    with running(AppSettings(version="1.2.3")) as url:
        yield url


@pytest.fixture(scope="session")
def locked() -> Iterator[str]:
    """The address of such a server that asks for the key "secret"."""
    with running(AppSettings(version="1.2.3", api_keys=("secret",))) as url:
        yield url


@contextmanager
def running(settings: AppSettings) -> Iterator[str]:
    backend = FakeBackend(script)
    ready: queue.Queue[Front] = queue.Queue()
    options = {"host": "127.0.0.1", "port": 0, "drain_seconds": 1, "max_body": 1 << 20, "on_ready": ready.put}
    app = create_app(backend, settings)
    thread = threading.Thread(target=serve, args=(app, backend), kwargs=options)
    thread.start()
    front = ready.get(timeout=10)
    yield front.url
    front.stop()
    thread.join(timeout=10)
    backend.close()


def script(request: GenerationRequest) -> Script:
    """What is said depends on what is asked: tools, a schema, few tokens, logprobs, or trouble by name."""
    if request.tools:
        return CALL
    said = asked(request.prompt)
    if said == "busy":
        raise Overloaded(1)
    if said == "break":
        return [*say("The")[:-1], Unavailable("stopping")]
    words = SHAPED if request.constraint else ANSWER[: request.max_tokens]
    reason = "length" if len(words) == request.max_tokens else "stop"
    steps = [step for index in range(request.n) for step in say(*words, index=index, reason=reason)]
    return steps if request.logprobs is None else scored(steps)


def asked(prompt: object) -> str:
    """The text of a prompt, or of a conversation's last message."""
    if isinstance(prompt, str):
        return prompt
    last = prompt[-1] if isinstance(prompt, tuple) else None
    return last.content if isinstance(last, Message) else ""


def scored(steps: Script) -> Script:
    return [scored_token(step) if isinstance(step, Token) else step for step in steps]


def scored_token(token: Token) -> Token:
    top = (Alternative(token.id, token.text, -0.5), Alternative(99, " other", -1.5))
    return replace(token, logprob=-0.5, top=top)
