"""Requests no client should send, for the routes of all dialects that take a body, and what may come of them.

Bodies are made from the dialects' own structs: each of their fields, however deep, with values of any kind.
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

from api.neodim.bodies import Body
from api.openai.bodies import ChatBody, CompletionBody
from api.openai.embeddings import EmbeddingBody
from api.openai.responses.bodies import ResponsesBody
from api.openai.tokens import DetokenizeBody, TokenizeBody
from api.tgi.bodies import CompatibleBody, GenerateBody
from api.tgi.bodies import TokenizeBody as TgiTokenizeBody
from tests.serving import Server


class Texts(msgspec.Struct):
    instances: list[GenerateBody]


class Chats(msgspec.Struct):
    instances: list[ChatBody]


class Kind(NamedTuple):
    """A kind of body: where it goes, its shape, and one that is well."""

    path: str
    shape: type
    good: dict[str, Any]


ASKED = [{"role": "user", "content": "hi"}]
PROMPT = {"prompt": "hi", "max_tokens": 2}
CHAT = {"messages": ASKED, "max_tokens": 2}
TGI = {"inputs": "hi", "parameters": {"max_new_tokens": 2}}
NEODIM = {"prompt": "hi", "generated_tokens_count": 2, "max_total_tokens": 100}

KINDS = {
    "completion": Kind("/v1/completions", CompletionBody, PROMPT),
    "chat": Kind("/v1/chat/completions", ChatBody, CHAT),
    "response": Kind("/v1/responses", ResponsesBody, {"input": "hi", "max_output_tokens": 2}),
    "embedding": Kind("/v1/embeddings", EmbeddingBody, {"input": "hi"}),
    "tokenize": Kind("/tokenize", TokenizeBody, {"prompt": "hi"}),
    "tokenize chat": Kind("/tokenize", TokenizeBody, {"messages": ASKED}),
    "tokenize tgi": Kind("/tokenize", TgiTokenizeBody, {"inputs": "hi"}),
    "detokenize": Kind("/detokenize", DetokenizeBody, {"tokens": [300, 301]}),
    "generate": Kind("/generate", GenerateBody, TGI),
    "generate stream": Kind("/generate_stream", GenerateBody, TGI),
    "compatible": Kind("/", CompatibleBody, TGI),
    "invocation": Kind("/invocations", CompatibleBody, TGI),
    "invocation openai": Kind("/invocations", CompletionBody, PROMPT),
    "vertex": Kind("/vertex", Texts, {"instances": [TGI]}),
    "vertex chat": Kind("/vertex", Chats, {"instances": [CHAT]}),
    "chat tokenize": Kind("/chat_tokenize", ChatBody, CHAT),
    "neodim": Kind("/generate", Body, NEODIM),
}
PATHS = tuple(dict.fromkeys(kind.path for kind in KINDS.values()))

SPOILT = "a\u0300\u0301\u0302" * 200 + "👩‍👩‍👧‍👦" * 50 + "\u202eשלום\u202c\u0000\ufffd\ufeff"
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
        SPOILT,
        "{{ 7 * 7 }}{% raw %}",
    ),
    *([], [1], [-1], [10**30], ["x"], [""], [[]], [None], {}, {"x": 1}, {"": None}, {"type": "x"}, [{}]),
)
INSIDES = ("Traceback", "/site-packages/", ".py", "/home/", "/root/")
FAULTS = ('"code":500', '"error_type":"generation"', "Internal")
FRAMES = ("", "data: [DONE]", ": ping")


def fields(kind: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The place of every field of msgspec's `kind`, and of the structs in it; "0" is a list's first."""
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


def spoilt(good: Any, place: tuple[str, ...], value: Any) -> Any:
    """A copy of `good` with `value` at `place`, and on the way to it whatever is needed."""
    if not place:
        return value
    step, *rest = place
    if step == "0":
        first = good[0] if isinstance(good, list) and good else None
        return [spoilt(first, tuple(rest), value)]
    known = good if isinstance(good, dict) else {}
    return known | {step: spoilt(known.get(step), tuple(rest), value)}


def send(client: Any, url: str, body: Any, timeout: float = 60) -> requests.Response:
    """`body`: bytes as they are, anything else as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(url, data=data, headers={"Content-Type": "application/json"}, timeout=timeout)


def answered_well(response: requests.Response) -> None:
    """No fault of the server's, nothing of its insides, and JSON in whatever framing."""
    asked, told = str(response.request.body), response.text
    said = f"{response.request.path_url} {asked[:400]} → {response.status_code} {told[:400]}"
    assert response.status_code < 500 or response.status_code == 501, said
    assert not [word for word in INSIDES if word in told and word not in asked], said
    assert not [word for word in FAULTS if word in told], said
    for line in told.splitlines():
        if line not in FRAMES and not line.startswith("event: "):
            json.loads(
                line.removeprefix("data: "), parse_constant=lambda name: pytest.fail(f"{name}: {said}")
            )
    if response.status_code >= 400:
        assert response.json()["error"], said


@contextmanager
def undisturbed(server: Server) -> Iterator[None]:
    """A client who asks for the same stream again and again, and has the same text each time."""
    body = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 1.3, "seed": 5, "stream": True}
    over, texts = threading.Event(), []

    def ask() -> None:
        with requests.Session() as client:
            while not over.is_set() or not texts:
                texts.append(streamed(send(client, f"{server.url}/v1/completions", body)))

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
