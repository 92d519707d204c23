"""Long lists, deep trees, slow patterns and code in templates take bounded time; others do not notice."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from scripts.robustness.hostile_bodies import BODIES, measure
from tests.live.hostile import CHAT, MESSAGES, NEODIM, PROMPT, TGI, check_response, send, undisturbed
from tests.servers.serving import ServerProcess

pytestmark = pytest.mark.slow

TIMEOUT_S = 60
MANY = 100_000
WORDS = [f"w{number}" for number in range(MANY)]
LONG = "a " * 5_000_000

COMPLETE, CHATS, RESPOND = "/v1/completions", "/v1/chat/completions", "/v1/responses"


def function(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


BIG: dict[str, tuple[str, dict[str, Any]]] = {
    "stops": (COMPLETE, PROMPT | {"stop": WORDS}),
    "long stops": (COMPLETE, PROMPT | {"stop": ["\u0301" * 1000] * 64, "max_tokens": 100}),
    "stop tokens": (COMPLETE, PROMPT | {"stop_token_ids": [5] * MANY}),
    "bad words": (COMPLETE, PROMPT | {"bad_words": WORDS}),
    "long bad words": (COMPLETE, PROMPT | {"bad_words": [f"{n} " + "é" * 900 for n in range(300)]}),
    "biases": (COMPLETE, PROMPT | {"logit_bias": dict.fromkeys(map(str, range(MANY)), 1)}),
    "all forbidden": (COMPLETE, PROMPT | {"logit_bias": dict.fromkeys(map(str, range(2048)), -100)}),
    "a list of biases": (COMPLETE, PROMPT | {"logit_bias": [1.0] * MANY}),
    "allowed": (COMPLETE, PROMPT | {"allowed_token_ids": [7] * MANY}),
    "prompts": (COMPLETE, PROMPT | {"prompt": WORDS}),
    "prompts and answers": (COMPLETE, PROMPT | {"prompt": WORDS[:2048], "n": 64}),
    "greedy answers": (COMPLETE, PROMPT | {"prompt": WORDS[:64], "n": 64, "temperature": 0}),
    "prompt ids": (COMPLETE, PROMPT | {"prompt": [1] * MANY}),
    "a long prompt": (COMPLETE, PROMPT | {"prompt": LONG}),
    "a prompt of the whole context": (COMPLETE, PROMPT | {"prompt": [5] * 2048}),
    "all logprobs": (COMPLETE, PROMPT | {"n": 64, "logprobs": 20, "prompt_logprobs": 20}),
    "too many answers": (COMPLETE, PROMPT | {"n": 10**9}),
    "too many to choose from": (COMPLETE, PROMPT | {"best_of": 10**9}),
    "messages": (CHATS, CHAT | {"messages": MESSAGES * MANY}),
    "parts": (CHATS, CHAT | {"messages": [{"role": "user", "content": ["a"] * MANY}]}),
    "a long name": (CHATS, CHAT | {"messages": [{**MESSAGES[0], "name": LONG}]}),
    "calls": (
        CHATS,
        CHAT | {"messages": [*MESSAGES, {"role": "assistant", "tool_calls": [function("f")] * MANY}]},
    ),
    "roles": (CHATS, CHAT | {"messages": [{"role": word, "content": "a"} for word in WORDS[:2000]]}),
    "reasoning": (CHATS, CHAT | {"messages": [{"role": "assistant", "content": "a", "reasoning": LONG}]}),
    "tools": (CHATS, CHAT | {"tools": [function(word) for word in WORDS]}),
    "a tool's long name": (CHATS, CHAT | {"tools": [function("x" * 1_000_000)]}),
    "documents": (CHATS, CHAT | {"documents": [{"a": "b"}] * MANY}),
    "template arguments": (CHATS, CHAT | {"chat_template_kwargs": dict.fromkeys(WORDS, 1)}),
    "items": (RESPOND, {"input": MESSAGES * MANY, "max_output_tokens": 2}),
    "metadata": (RESPOND, {"input": "a", "max_output_tokens": 2, "metadata": dict.fromkeys(WORDS, "x")}),
    "inputs": ("/v1/embeddings", {"input": WORDS}),
    "a long input": ("/v1/embeddings", {"input": LONG}),
    "tokenize": ("/tokenize", {"prompt": LONG}),
    "tokenize tgi": ("/tokenize", {"inputs": LONG}),
    "tokenize chat": ("/chat_tokenize", CHAT | {"messages": MESSAGES * MANY}),
    "detokenize": ("/detokenize", {"tokens": [300] * 1_000_000}),
    "tgi stops": ("/generate", TGI | {"parameters": {"stop": WORDS}}),
    "tgi inputs": ("/generate_stream", TGI | {"inputs": LONG}),
    "instances": ("/vertex", {"instances": [TGI] * MANY}),
    "chat instances": ("/vertex", {"instances": [CHAT | {"n": 64}] * 100}),
    "neodim prompt": ("/generate", NEODIM | {"prompt": LONG}),
    "neodim preamble": ("/generate", NEODIM | {"preamble": LONG}),
    "special tokens": ("/generate", NEODIM | {"prompt": "<|eot_id|>" * 10_000}),
    "blacklist": ("/generate", NEODIM | {"words_blacklist": ["é" * 190 + str(n) for n in range(300)]}),
    "penalised": (
        "/generate",
        NEODIM | {"repetition_penalty": 1.1, "repetition_penalty_prompt": "a b " * 30_000},
    ),
    "version": ("/generate", NEODIM | {"required_server_version": ">=0.1," * MANY + ">0"}),
    "digits of a version": ("/generate", NEODIM | {"required_server_version": "==" + "1" * 5000}),
    "sequences": ("/generate", NEODIM | {"sequences_count": 10**9}),
}


@pytest.fixture(autouse=True)
def neighbour(server: ServerProcess) -> Iterator[None]:
    with undisturbed(server):
        yield


def post_checked(server: ServerProcess, path: str, body: dict[str, Any]) -> requests.Response:
    response = send(requests, server.url + path, body, TIMEOUT_S)
    check_response(response)
    return response


@pytest.mark.parametrize("name", BIG)
def test_a_request_that_is_too_large_is_refused_or_answered(server: ServerProcess, name: str) -> None:
    post_checked(server, *BIG[name])


@pytest.mark.parametrize("name", [name for name, (_, body) in BODIES.items() if body])
def test_health_is_answered_while_hostile_bodies_arrive(server: ServerProcess, name: str) -> None:
    """A quiet machine answers within 0.1 s; the limit leaves room for a busy one."""
    _, _, memory_before = server.usage
    assert measure(server.url, name, num_clients=3) < 2.0
    assert server.usage[2] - memory_before < 500e6


STRING = {"type": "string"}


def nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = STRING
    for _ in range(levels):
        inner = {"type": "object", "properties": {"a": inner}}
    return inner


SCHEMAS: dict[str, dict[str, Any]] = {
    "circle": {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    "fork": {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 9}}, "$ref": "#/$defs/a"},
    "tree": {"$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"},
    "enum": {"enum": WORDS[:10_000]},
    "product": {
        "allOf": [{"anyOf": [{"properties": {f"p{i}{j}": STRING}} for j in range(6)]} for i in range(12)]
    },
    "properties": {"type": "object", "properties": dict.fromkeys(WORDS[:2000], STRING)},
    "pattern": {"type": "string", "pattern": "(a+)+$"},
    "length": {"type": "string", "minLength": 10**6, "maxLength": 10**9},
    "items": {"type": "array", "items": {"type": "integer", "maximum": 10**300}, "minItems": 10**6},
    "multiple": {"type": "number", "multipleOf": 1e-300},
    "deep": nested(40),
    "format": {"type": "string", "format": "x" * 1000},
    "constant": {"const": "x" * 60_000},
    "elsewhere": {"$ref": "http://127.0.0.1:1/"},
    "file": {"$ref": "file:///etc/passwd"},
}
PATTERNS = (
    "(a+)+$", "a{1,100000}", "(a{1,1000}){1,1000}", "((a{1,100}){1,100}){1,100}", "(.*a){30}",
    "(.{1,300}x){1,300}", "[ab]*a[ab]{300}", "(a|b|ab)*" * 200, "x*" * 900, "(" * 900 + ")" * 900,
    "\\p{L}{1,5000}", "(?i)" + "é" * 900, "[^\\x00-\\U0010ffff]", "(?P<x>a)(?P=x)", "(?=a)b",
    "(.*)*(.*)*(.*)*x", "(?R)", "\x00", "(", "",
)  # fmt: skip
GRAMMARS = (
    "start: start start", "start: a\na: a", "root ::= root", 'start: "a"{1,100000}', "start: @x", "\x00", "",
    "%import python.file\nstart: file", 'start: %json {"$ref": "file:///etc/passwd"}',
    "start: " + "(" * 3000 + '"a"' + ")" * 3000, "root ::= " + "(" * 2000 + '"a"' + ")" * 2000,
    "start: " + " | ".join(f'"{word}"' for word in WORDS[:5000]),
)  # fmt: skip


@pytest.mark.parametrize("name", SCHEMAS)
def test_any_schema_is_refused_or_followed(server: ServerProcess, name: str) -> None:
    schema = SCHEMAS[name]
    post_checked(server, COMPLETE, PROMPT | {"structured_outputs": {"json": schema}, "max_tokens": 30})
    post_checked(
        server, CHATS, CHAT | {"tools": [function("f", parameters=schema)], "tool_choice": "required"}
    )
    text = {"format": {"type": "json_schema", "name": "x", "schema": schema}}
    post_checked(server, RESPOND, {"input": "a", "max_output_tokens": 30, "text": text})
    grammar = {"type": "json", "value": {"properties": {}} | schema}
    post_checked(server, "/generate", TGI | {"parameters": {"max_new_tokens": 30, "grammar": grammar}})


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: ascii(pattern[:20]))
def test_any_pattern_is_refused_or_followed(server: ServerProcess, pattern: str) -> None:
    post_checked(server, COMPLETE, PROMPT | {"guided_regex": pattern, "max_tokens": 60, "temperature": 2})
    grammar = {"type": "regex", "value": pattern}
    post_checked(server, "/generate", TGI | {"parameters": {"max_new_tokens": 60, "grammar": grammar}})
    stops = {"stop_strings": [pattern] * 64, "stop_strings_type": "regex"}
    post_checked(server, "/generate", NEODIM | stops | {"generated_tokens_count": 90, "sequences_count": 8})


@pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda grammar: ascii(grammar[:20]))
def test_any_grammar_is_refused_or_followed(server: ServerProcess, grammar: str) -> None:
    post_checked(server, COMPLETE, PROMPT | {"guided_grammar": grammar, "max_tokens": 30})


CODE = "{{ ''.__class__.__mro__[1].__subclasses__() }}{% include '/etc/passwd' %}{{ 7 * 191 }}"


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": CODE}]},
        {"messages": [{"role": "user", "content": "a", "name": CODE}]},
        {"messages": [{"role": CODE, "content": "a"}]},
        {"messages": [{"role": "assistant", "content": "a", "reasoning_content": CODE}]},
        {"tools": [function(CODE, description=CODE, parameters={CODE: CODE})]},
        {"chat_template_kwargs": {CODE: CODE, "x": CODE}},
        {"chat_template_kwargs": {"bos_token": CODE}},
        {"documents": [{"title": CODE, "text": CODE}]},
        {"reasoning_effort": CODE},
    ],
    ids=lambda body: next(iter(body)),
)
def test_no_field_is_rendered_as_a_template(server: ServerProcess, body: dict[str, Any]) -> None:
    response = post_checked(server, "/chat_tokenize", CHAT | body)
    assert "1337" not in response.text and "<class" not in response.text and "root:" not in response.text
    post_checked(server, CHATS, CHAT | body)


@pytest.mark.parametrize("name", ["messages", "tools", "chat_template", "tokenize", "self", "return_tensors"])
def test_arguments_that_the_server_passes_to_the_template_cannot_be_replaced(
    server: ServerProcess, name: str
) -> None:
    response = post_checked(server, CHATS, CHAT | {"chat_template_kwargs": {name: CODE}})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "chat_template_kwargs")
