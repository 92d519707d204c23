"""Malformed bodies: never a 5xx, never a stopped server, always JSON."""

import json
import math

import pytest
import requests

from tests.live.raw_bodies import RAW
from tests.servers.serving import ServerProcess

PATHS = (
    "/inference/completion",
    "/inference/chat_completion",
    "/alpha/inference/chat-completion",
    "/v1/inference/completion",
    "/v1/inference/chat-completion",
)
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}

WRONG = {
    "content": [None, 1, True, {}, [], [1], {"type": "nope"}, [[["a"]]], {"type": "text", "text": 5}],
    "messages": [None, 1, "x", {}, [], [1], [{}], [{"role": "nobody", "content": "x"}], [None]],
    "model": [1, [], {}, "no-such-model", "", "../../etc/passwd", "x" * 100_000],
    "stream": ["yes", 1, [], {}],
    "logprobs": [1, "x", [], {"top_k": -1}, {"top_k": 10**9}, {"top_k": "3"}, {"top_k": 1.5}],
    "tools": [1, "x", {}, [1], [{}], [{"tool_name": 1}], [{"tool_name": "a", "parameters": [1]}]],
    "tool_choice": [1, [], {}],
    "response_format": [
        1,
        "x",
        [],
        {},
        {"type": "nope"},
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": {"type": "nope"}},
        {"type": "json_schema", "json_schema": {"$ref": "#/definitions/none"}},
        {"type": "json_schema", "json_schema": {"enum": []}},
        {"type": "json_schema", "json_schema": {"type": "string", "pattern": "(((("}},
        {"type": "grammar", "bnf": {}},
        {"type": "grammar", "bnf": "nonsense ::= ("},
    ],
    "sampling_params": [
        1,
        "x",
        [],
        *({"temperature": t} for t in (-1, 1e308, "hot", [], -math.inf)),
        *({"strategy": s} for s in (1, [], {}, "nope", {"type": "nope"}, {"type": "top_p", "top_p": 7})),
        *({"strategy": {"type": "top_p", "top_p": 0.5, "temperature": t}} for t in (0, -2, "x")),
        *({"strategy": {"type": "top_k", "top_k": k}} for k in (-5, 0, "x", 10**30)),
        *({"max_tokens": m} for m in (-1, 1.5, "x", 10**30, [])),
        *({"repetition_penalty": r} for r in (0, -1, "x", 1e-300)),
        *({"stop": s} for s in (1, "", [""], [1], ["x"] * 10_000, ["y" * 100_000], {})),
    ],
}


@pytest.fixture(autouse=True)
def still_serving(server: ServerProcess) -> None:
    yield
    assert server.process.poll() is None
    response = server.post("/inference/completion", {"model": "m", "content": "The capital of France is"})
    assert "Paris" in response.json()["content"]


def refused_cleanly(response: requests.Response) -> None:
    assert response.status_code < 500, response.text[:300]
    assert response.headers["content-type"].split(";")[0] in ("application/json", "application/x-ndjson")
    for line in response.text.splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    if response.status_code >= 400:
        body = response.json()
        assert body["detail"] and body["error"]
        assert "Traceback" not in response.text and "/site-packages/" not in response.text


@pytest.mark.slow
@pytest.mark.parametrize("name", RAW)
def test_a_broken_body_is_refused_in_json(server: ServerProcess, name: str) -> None:
    for path in PATHS:
        headers = {"Content-Type": "application/json"}
        refused_cleanly(requests.post(server.url + path, data=RAW[name], headers=headers, timeout=60))


@pytest.mark.slow
@pytest.mark.parametrize("field", WRONG)
def test_a_field_of_the_wrong_type_is_refused_in_json(server: ServerProcess, field: str) -> None:
    for path in PATHS:
        for value in WRONG[field]:
            body = {"content": "hi", **CHAT, "sampling_params": {"max_tokens": 2}, field: value}
            data = json.dumps(body).encode()
            refused_cleanly(
                requests.post(
                    server.url + path, data=data, headers={"Content-Type": "application/json"}, timeout=60
                )
            )


@pytest.mark.slow
def test_a_body_over_the_limit_is_refused(server: ServerProcess) -> None:
    for size in (5_000_000, 20_000_000):
        for path in PATHS:
            content = "a " * (size // 2)
            body = {**CHAT, "content": content, "messages": [{"role": "user", "content": content}]}
            response = server.post(path, body)
            assert response.status_code in (400, 413), response.text[:200]
            refused_cleanly(response)


@pytest.mark.slow
def test_an_unknown_path_or_method_is_answered_in_json(server: ServerProcess) -> None:
    for path in (
        "/nope",
        "/inference/nope",
        "/alpha/nope",
        "/v1/nope",
        "/v1/agents",
        "/%ff%fe",
        "/" + "x" * 3000,
    ):
        for method in ("get", "post", "delete"):
            refused_cleanly(requests.request(method, server.url + path, timeout=60))
    wrong = requests.get(server.url + "/inference/completion", timeout=60)
    assert wrong.status_code == 405
    refused_cleanly(wrong)
