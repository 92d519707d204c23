"""Malformed requests for all routes that take a body, in every dialect, and checks of the responses.

Bodies are generated from the dialects' own structs: each field at any depth, with values of any type.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
import pytest
import requests
from msgspec import inspect

from api.neodim.protocol import NeodimRequest
from api.openai.protocol.chat import ChatCompletionRequest
from api.openai.protocol.completion import CompletionRequest
from api.openai.protocol.embeddings import EmbeddingRequest
from api.openai.protocol.tokenize import DetokenizeRequest, TokenizeRequest
from api.openai.responses.protocol import ResponsesRequest
from api.tgi.protocol import CompatGenerateRequest, EmbedRequest, GenerateRequest
from api.tgi.protocol import TgiTokenizeRequest as TgiTokenizeBody
from tests.servers.serving import ServerProcess


class TextInstances(msgspec.Struct):
    instances: list[GenerateRequest]


class ChatInstances(msgspec.Struct):
    instances: list[ChatCompletionRequest]


class BodyKind(NamedTuple):
    """A kind of body: its path, its struct, and a valid example."""

    path: str
    shape: type
    good: dict[str, Any]


MESSAGES = [{"role": "user", "content": "hi"}]
PROMPT = {"prompt": "hi", "max_tokens": 2}
CHAT = {"messages": MESSAGES, "max_tokens": 2}
TGI = {"inputs": "hi", "parameters": {"max_new_tokens": 2}}
NEODIM = {"prompt": "hi", "generated_tokens_count": 2, "max_total_tokens": 100}

KINDS = {
    "completion": BodyKind("/v1/completions", CompletionRequest, PROMPT),
    "chat": BodyKind("/v1/chat/completions", ChatCompletionRequest, CHAT),
    "response": BodyKind("/v1/responses", ResponsesRequest, {"input": "hi", "max_output_tokens": 2}),
    "embedding": BodyKind("/v1/embeddings", EmbeddingRequest, {"input": "hi"}),
    "embedding of a chat": BodyKind("/v1/embeddings", EmbeddingRequest, {"messages": MESSAGES}),
    "embed": BodyKind("/embed", EmbedRequest, {"inputs": "hi"}),
    "tokenize": BodyKind("/tokenize", TokenizeRequest, {"prompt": "hi"}),
    "tokenize chat": BodyKind("/tokenize", TokenizeRequest, {"messages": MESSAGES}),
    "tokenize tgi": BodyKind("/tokenize", TgiTokenizeBody, {"inputs": "hi"}),
    "detokenize": BodyKind("/detokenize", DetokenizeRequest, {"tokens": [300, 301]}),
    "generate": BodyKind("/generate", GenerateRequest, TGI),
    "generate stream": BodyKind("/generate_stream", GenerateRequest, TGI),
    "compatible": BodyKind("/", CompatGenerateRequest, TGI),
    "invocation": BodyKind("/invocations", CompatGenerateRequest, TGI),
    "invocation openai": BodyKind("/invocations", CompletionRequest, PROMPT),
    "vertex": BodyKind("/vertex", TextInstances, {"instances": [TGI]}),
    "vertex chat": BodyKind("/vertex", ChatInstances, {"instances": [CHAT]}),
    "chat tokenize": BodyKind("/chat_tokenize", ChatCompletionRequest, CHAT),
    "neodim": BodyKind("/generate", NeodimRequest, NEODIM),
}
# Kinds whose structs others of the kinds have as well, on another path.
REPEATED = {"generate stream", "invocation", "invocation openai", "vertex", "vertex chat", "chat tokenize"}
PATHS = tuple(dict.fromkeys(kind.path for kind in KINDS.values()))

CORRUPT_TEXT = "a\u0300\u0301\u0302" * 200 + "👩‍👩‍👧‍👦" * 50 + "\u202eשלום\u202c\u0000\ufffd\ufeff"
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 7, 1.5, -0.0, 1e308, -1e308, 5e-324, 2**31, 2**63, 2**64, -(2**63) - 1),
    *(
        10**30,
        10**400,
        "",
        "x",
        "1",
        "-1",
        "1e400",
        "nan",
        "1" * 5000,
        "\x00",
        CORRUPT_TEXT,
        "{{ 7 * 7 }}{% raw %}",
    ),
    *([], [1], [-1], [10**30], ["x"], [""], [[]], [None], {}, {"x": 1}, {"": None}, {"type": "x"}, [{}]),
)
PAUSE_S = 0.5  # the background client's: continuous streams would take most of the processor
INSIDES = ("Traceback", "/site-packages/", ".py", "/home/", "/root/")
FAULTS = ('"code":500', '"error_type":"generation"', "Internal")
FRAMES = ("", "data: [DONE]", ": ping")


def fields(kind: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every field of msgspec's `kind` and of nested structs; "0" is a list's first item."""
    match kind:
        case inspect.StructType():
            for field in kind.fields:
                yield (*place, field.encode_name)
                yield from fields(field.type, (*place, field.encode_name))
            if kind.tag_field:
                yield (*place, kind.tag_field)
        case inspect.UnionType():
            for each in kind.types:
                yield from fields(each, place)
        case inspect.ListType():
            yield (*place, "0")
            yield from fields(kind.item_type, (*place, "0"))


def places(shape: type) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(fields(inspect.type_info(shape))))


def replace_at(good: Any, place: tuple[str, ...], value: Any) -> Any:
    """A copy of `good` with `value` at `place`; missing containers on the way are created."""
    if not place:
        return value
    step, *rest = place
    if step == "0":
        first = good[0] if isinstance(good, list) and good else None
        return [replace_at(first, tuple(rest), value)]
    known = good if isinstance(good, dict) else {}
    return known | {step: replace_at(known.get(step), tuple(rest), value)}


def send(client: Any, url: str, body: Any, timeout: float = 60) -> requests.Response:
    """Posts `body`: bytes unchanged, anything else as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(url, data=data, headers={"Content-Type": "application/json"}, timeout=timeout)


def check_response(response: requests.Response) -> None:
    """Asserts no server error, no internals in the text, and valid JSON in any framing."""
    sent, text = str(response.request.body), response.text
    summary = f"{response.request.path_url} {sent[:400]} → {response.status_code} {text[:400]}"
    assert response.status_code < 500 or response.status_code == 501, summary
    assert not [word for word in INSIDES if word in text and word not in sent], summary
    assert not [word for word in FAULTS if word in text], summary
    for line in text.splitlines():
        if line not in FRAMES and not line.startswith("event: "):
            json.loads(
                line.removeprefix("data: "), parse_constant=lambda name: pytest.fail(f"{name}: {summary}")
            )
    if response.status_code >= 400:
        assert response.json()["error"], summary


@contextmanager
def undisturbed(server: ServerProcess) -> Iterator[None]:
    """A background client that repeats one streamed request, with pauses; the text must stay the same."""
    body = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 1.3, "seed": 5, "stream": True}
    over, texts = threading.Event(), []

    def ask() -> None:
        with requests.Session() as client:
            while not over.is_set() or not texts:
                texts.append(streamed(send(client, f"{server.url}/v1/completions", body)))
                over.wait(PAUSE_S)

    alone = streamed(send(requests, f"{server.url}/v1/completions", body))
    client = threading.Thread(target=ask)
    client.start()
    try:
        yield
    finally:
        over.set()
        client.join(120)
    assert set(texts) == {alone} and alone
    assert server.process.poll() is None


def streamed(response: requests.Response) -> str:
    """The text of a streamed completion."""
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
    assert lines[-1] == "[DONE]", response.text[-300:]
    return "".join(json.loads(line)["choices"][0]["text"] for line in lines[:-1])
