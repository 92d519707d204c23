"""Which clients get NDJSON lines and which get server-sent events."""

import pytest
from werkzeug.datastructures import Headers

from api.llama_stack.versions import ALPHA, PASSTHROUGH, ROOT, V1, ProtocolVersion, choose_framing
from api.response import NDJSON, SSE, Framing

CURL = {"Accept": "*/*", "User-Agent": "curl/8.5.0"}
OLD_CLIENT = {"Accept": "application/json", "User-Agent": "LlamaStackClient/Python 0.0.1-alpha.0"}
ASYNC_CLIENT = {"Accept": "*/*", "User-Agent": "AsyncLlamaStackClient/Python 0.2.12"}
RENAMED_CLIENT = {"User-Agent": "OgxClient/Python 0.6.1"}
STAINLESS = {"Accept": "application/json", "X-Stainless-Lang": "python"}


@pytest.mark.parametrize(
    ("headers", "generation", "setting", "expected"),
    [
        ({"Accept": "application/x-ndjson"}, V1, "sse", NDJSON),
        (STAINLESS | {"Accept": "application/jsonl"}, ALPHA, "auto", NDJSON),
        ({"Accept": "text/event-stream"}, ROOT, "ndjson", SSE),
        (OLD_CLIENT, ROOT, "ndjson", SSE),
        (ASYNC_CLIENT, ROOT, "auto", SSE),
        (RENAMED_CLIENT, ROOT, "auto", SSE),
        (STAINLESS, ROOT, "auto", SSE),
        (CURL, ALPHA, "ndjson", SSE),
        (CURL, V1, "auto", SSE),
        (CURL, PASSTHROUGH, "auto", SSE),
        (CURL, ROOT, "auto", NDJSON),
        ({}, ROOT, "auto", NDJSON),
        (CURL, ROOT, "ndjson", NDJSON),
        (CURL, ROOT, "sse", SSE),
    ],
)
def test_framing_follows_accept_then_client_then_path_then_setting(
    headers: dict[str, str], generation: ProtocolVersion, setting: str, expected: Framing
) -> None:
    assert choose_framing(Headers(headers), generation, setting) is expected
