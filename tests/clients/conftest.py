"""The servers that real clients talk to: one with the demo model, one with scripted answers."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from api import create_app
from api.hooks.body_limits import make_body_limit
from api.server.early_checks import EarlyChecks
from api.server.serve import HttpServer, serve
from api.services import Services
from inference.errors import Overloaded, Unavailable
from inference.events import CallDelta, Finished, Started, Token, TopLogprob
from inference.types import GenerationRequest, Message, Tool
from settings.groups import HttpSettings, ServerSettings
from tests.clients import client_process
from tests.fakes.fake_backend import FakeBackend, Script, make_models, say
from tests.servers.serving import serving
from tests.tuning.scripted_service import FakeAdapters, RecordingHost, make_service
from tuning.service import TuningService

ANSWER_WORDS = ("The", " capital", " of", " France", " is", " Paris", ".")
JSON_WORDS = ('{"capital"', ': "Paris"}')
REASONED: Script = [
    Started(0, prompt_tokens=3, cached_tokens=0),
    Token(0, 1, "", reasoning="France,"),
    Token(0, 2, "", reasoning=" so Paris."),
    Token(0, 3, "It is"),
    Token(0, 4, " Paris."),
    Finished(0, "stop", num_tokens=4, num_reasoning_tokens=2),
]


@pytest.fixture(scope="session", autouse=True)
def clients() -> Iterator[None]:
    """The processes of the clients end with the tests."""
    yield
    client_process.end_all()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of `python main.py` with the demo model."""
    with serving() as running:
        yield running.url


@pytest.fixture(scope="session")
def scripted() -> Iterator[str]:
    """The address of a server with scripted answers."""
    with running(FakeBackend(script), ServerSettings(version="1.2.3")) as url:
        yield url


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with scripted answers and scripted training."""
    folder = tmp_path_factory.mktemp("tuning") / "tuning"
    backend = FakeBackend(script)
    backend.lora = FakeAdapters()
    service = make_service(folder, backend.lora, host=RecordingHost())
    with running(backend, ServerSettings(version="1.2.3"), tuning=service) as url:
        yield url
    service.close()


@pytest.fixture(scope="session")
def locked() -> Iterator[str]:
    """The address of a scripted server that requires the API key `secret`."""
    with running(FakeBackend(script), ServerSettings(version="1.2.3", api_keys=("secret",))) as url:
        yield url


@contextmanager
def running(
    backend: FakeBackend,
    settings: ServerSettings,
    *names: str,
    tuning: TuningService | None = None,
    drain_seconds: float = 1,
) -> Iterator[str]:
    """The address of a server whose model has these further names."""
    ready: queue.Queue[HttpServer] = queue.Queue()
    models = make_models(backend, *names)
    app = create_app(models, settings, services=Services(tuning=tuning))
    checks = EarlyChecks(make_body_limit(app, settings.max_body_bytes))
    http_settings = HttpSettings(port=0, drain_seconds=drain_seconds)
    thread = threading.Thread(target=serve, args=(app, models, checks, http_settings, ready.put))
    thread.start()
    front = ready.get(timeout=60)
    try:
        yield front.url
    finally:
        front.stop()
        thread.join(timeout=60)
        backend.close()


def script(request: GenerationRequest) -> Script:
    """The answer depends on the request: tools, a schema, max_tokens, logprobs; "busy" and "break" cause
    errors, "think" reasoning.
    """
    if request.tools:
        return call(request.tools[0])
    question = last_message(request.prompt)
    if question == "busy":
        raise Overloaded(1)
    if question == "break":
        return [*say("The")[:-1], Unavailable("stopping")]
    if question == "think":
        return REASONED
    words = JSON_WORDS if request.constraint else ANSWER_WORDS[: request.max_tokens]
    reason = "length" if len(words) == request.max_tokens else "stop"
    steps = [step for index in range(request.n) for step in say(*words, index=index, reason=reason)]
    return steps if request.logprobs is None else add_logprobs(steps)


def call(tool: Tool) -> Script:
    """A call in two deltas. A custom tool has the parameter `input`."""
    is_custom = "input" in tool.parameters.get("properties", {})
    first, second = ('{"input": "a\\', 'nb"}') if is_custom else ('{"city": ', '"Paris"}')
    return [
        Started(0, prompt_tokens=3, cached_tokens=0),
        CallDelta(0, 0, "call-1", tool.name, first, done=False),
        CallDelta(0, 0, "call-1", tool.name, second, done=True),
        Finished(0, "stop", num_tokens=9),
    ]


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
