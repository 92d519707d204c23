"""Requests that once stalled, killed or fooled the server, each with the statuses that may answer it."""

import json
from string import ascii_lowercase
from typing import Any, NamedTuple

from scripts.robustness.hostile_bodies import BODIES

COMPLETE, EMBED, GENERATE = "/v1/completions", "/v1/embeddings", "/generate"
PROMPT = {"prompt": "hi", "max_tokens": 16}
NEODIM = {"prompt": "hi", "generated_tokens_count": 60, "max_total_tokens": 300}
REFUSED = frozenset((400,))
TOO_LARGE = frozenset((400, 413, 422, 429))
COSTLY = frozenset((400, 429))  # one grammar is compiled at a time: others may wait too long
COMPUTED = frozenset((200, 429))
PATTERN_SCHEMAS = [{"type": "string", "pattern": f".*{char}.*"} for char in ascii_lowercase]


class HostileInput(NamedTuple):
    """A POST of `body` to `path`; or, if path is empty, the bytes of a whole connection."""

    path: str
    body: bytes
    statuses: frozenset[int]


def post(path: str, body: Any, statuses: frozenset[int] = REFUSED) -> HostileInput:
    return HostileInput(path, body if isinstance(body, bytes) else json.dumps(body).encode(), statuses)


def patterns(*stop_strings: str, statuses: frozenset[int] = REFUSED) -> HostileInput:
    fields = {"stop_strings": list(stop_strings), "stop_strings_type": "regex"}
    return post(GENERATE, NEODIM | fields, statuses)


def connection(head: bytes, *statuses: int) -> HostileInput:
    return HostileInput("", head, frozenset(statuses))


def intersection(num_terms: int) -> str:
    terms = [
        f"/.*{char}.*/" for char in (ascii_lowercase + "0123456789" + ascii_lowercase.upper())[:num_terms]
    ]
    return "start: A\nA: " + " & ".join(terms)


def get(target: bytes, *headers: bytes, version: bytes = b"HTTP/1.1") -> bytes:
    return b"\r\n".join([b"GET " + target + b" " + version, *headers, b"Connection: close", b"", b""])


HOST = b"Host: 127.0.0.1"
UPGRADE = b"GET /health/live HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"
INPUTS: dict[str, HostileInput] = {
    "pattern: 9 million elements": patterns("(?:a{3000}){3000}"),
    "pattern: 90 nested repetitions": patterns("(" * 90 + "a" + "){1,50}" * 90),
    "pattern: recursive": patterns("(?R)?.(?R)"),
    "pattern: backtracking": patterns("(a|a)*b$", "(.*a*)*b$", "(x+x+)+y", statuses=COMPUTED | REFUSED),
    "pattern: 10,000 sets": patterns(*["[a-z]" * 400] * 64),
    "schema: 20 patterns in allOf": post(
        COMPLETE, PROMPT | {"guided_json": {"allOf": PATTERN_SCHEMAS[:20]}}, COSTLY
    ),
    "schema: in a grammar": post(
        COMPLETE,
        PROMPT | {"guided_grammar": f"start: %json {json.dumps({'allOf': PATTERN_SCHEMAS})}"},
        COSTLY,
    ),
    "schema: 60,000 values": post(
        COMPLETE, PROMPT | {"guided_json": {"enum": [f"v{n}" for n in range(60_000)]}}, TOO_LARGE
    ),
    "schema: 101 levels": post(
        COMPLETE, b'{"prompt": "", "guided_json": ' + b'{"not":' * 101 + b"{}" + b"}" * 102
    ),
    "grammar: 40 intersections": post(COMPLETE, PROMPT | {"guided_grammar": intersection(40)}, COSTLY),
    "grammar: 60 intersections": post(COMPLETE, PROMPT | {"guided_grammar": intersection(60)}, COSTLY),
    "regex: nested repetitions": post(
        COMPLETE, PROMPT | {"guided_regex": "(a{1,999}){1,999}"}, COSTLY | COMPUTED
    ),
    "regex: 64 KiB": post(COMPLETE, PROMPT | {"guided_regex": "(a|b)" * 14_000}, COSTLY),
    **{
        f"body: {name}": post(*BODIES[name], TOO_LARGE | COMPUTED)
        for name in BODIES
        if name != "no hostile body"
    },
    "body: nested lists": post(COMPLETE, b"[" * 1_000_000, TOO_LARGE),
    "embeddings: 2,048 inputs": post(EMBED, {"input": ["a"] * 2048}, COMPUTED),
    "embeddings: a long input": post(EMBED, {"input": "word " * 1500}, COMPUTED),
    "embeddings: 32 long inputs": post(EMBED, {"input": ["word " * 900] * 32}, COMPUTED),
    "HTTP: no Host": connection(get(b"/health/live"), 400),
    "HTTP: two Hosts": connection(get(b"/health/live", HOST, HOST), 400),
    "HTTP: 2.0": connection(get(b"/health/live", HOST, version=b"HTTP/2.0"), 505),
    "HTTP: a fragment": connection(get(b"/health/live#x", HOST), 400),
    "HTTP: a malformed chunk": connection(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400
    ),
    "HTTP: 339 Upgrades": connection(UPGRADE * 339 + get(b"/health/live", HOST), 200),
    "HTTP: a line feed in the path": connection(get(b"/x%0a2026-01-01%20forged", HOST), 404),
    "HTTP: headers of 70 KB": connection(get(b"/health/live", HOST, b"X: " + b"x" * 70_000), 431),
    "HTTP: a foreign page": connection(get(b"/v1/models", HOST, b"Origin: http://evil.example"), 403),
    "HTTP: a foreign name": connection(get(b"/v1/models", b"Host: evil.example"), 403),
}
