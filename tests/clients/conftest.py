"""The servers that real clients talk to: one with the demo model, one with scripted answers."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from api import create_app
from api.body_limits import make_body_limit
from api.server.serve import HttpServer, serve
from inference.errors import Overloaded, Unavailable
from inference.types import CallDelta, Finished, GenerationRequest, Message, Started, Token, TopLogprob
from settings.groups import ServerSettings
from tests.fake_backend import FakeBackend, Script, make_models, say
from tests.serving import serving

ANSWER_WORDS = ("The", " capital", " of", " France", " is", " Paris", ".")
JSON_WORDS = ('{"capital"', ': "Paris"}')
CALL: Script = [
    Started(0, prompt_tokens=3, cached_tokens=0),
    CallDelta(0, 0, "call-1", "get_weather", '{"city": ', done=False),
    CallDelta(0, 0, "call-1", "get_weather", '"Paris"}', done=True),
    Finished(0, "stop", num_tokens=9),
]


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of `python main.py` with the demo model."""
    with serving() as running:
        yield running.url


@pytest.fixture(scope="session")
def scripted() -> Iterator[str]:
    """The address of a server with scripted answers."""
    with running(ServerSettings(version="1.2.3")) as url:
        yield url


@pytest.fixture(scope="session")
def locked() -> Iterator[str]:
    """The address of a scripted server that requires the API key `secret`."""
    with running(ServerSettings(version="1.2.3", api_keys=("secret",))) as url:
        yield url


@contextmanager
def running(settings: ServerSettings) -> Iterator[str]:
    backend = FakeBackend(script)
    ready: queue.Queue[HttpServer] = queue.Queue()
    options = {"host": "127.0.0.1", "port": 0, "drain_seconds": 1, "on_ready": ready.put}
    models = make_models(backend)
    app = create_app(models, settings)
    options["body_limit"] = make_body_limit(app, settings.max_body_bytes)
    thread = threading.Thread(target=serve, args=(app, models), kwargs=options)
    thread.start()
    front = ready.get(timeout=10)
    yield front.url
    front.stop()
    thread.join(timeout=10)
    backend.close()


def script(request: GenerationRequest) -> Script:
    """The answer depends on the request: tools, a schema, max_tokens, logprobs; "busy" and "break" cause
    errors.
    """
    if request.tools:
        return CALL
    question = last_message(request.prompt)
    if question == "busy":
        raise Overloaded(1)
    if question == "break":
        return [*say("The")[:-1], Unavailable("stopping")]
    words = JSON_WORDS if request.constraint else ANSWER_WORDS[: request.max_tokens]
    reason = "length" if len(words) == request.max_tokens else "stop"
    steps = [step for index in range(request.n) for step in say(*words, index=index, reason=reason)]
    return steps if request.logprobs is None else add_logprobs(steps)


def last_message(prompt: object) -> str:
    """The text of a prompt, or of a conversation's last message."""
    if isinstance(prompt, str):
        return prompt
    last = prompt[-1] if isinstance(prompt, tuple) else None
    return last.content if isinstance(last, Message) else ""


def add_logprobs(steps: Script) -> Script:
    return [add_logprob(step) if isinstance(step, Token) else step for step in steps]


def add_logprob(token: Token) -> Token:
    top = (TopLogprob(token.id, token.text, -0.5), TopLogprob(99, " other", -1.5))
    return replace(token, logprob=-0.5, top_logprobs=top)
