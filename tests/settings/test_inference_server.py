"""INFERENCE_SERVER: every form that h2oGPT's --inference_server has."""

import pytest

from settings.inference_server import BadServer, parse_server

BASIC = {"Authorization": "Basic dTpw"}  # u:p


@pytest.mark.parametrize(
    ("text", "kind", "url", "routes"),
    [
        ("http://h:8080", "detect", "http://h:8080", "both"),
        ("https://h.example/", "detect", "https://h.example", "both"),
        ("h:8080", "detect", "http://h:8080", "both"),
        ("tgi:http://h:8080", "tgi", "http://h:8080", "both"),
        ("hearth:h:8000", "hearth", "http://h:8000", "both"),
        ("gradio:https://h", "gradio", "https://h", "both"),
        ("llamastack:h:5001", "llamastack", "http://h:5001", "both"),
        ("vllm:h:5000", "vllm", "http://h:5000/v1", "completions"),
        ("vllm_chat:h:5000", "vllm", "http://h:5000/v1", "chat"),
        ("vllm:h:5000:/path/v1:KEY", "vllm", "http://h:5000/path/v1", "completions"),
        ("vllm_chat:https://h.example:None:/v1:KEY", "vllm", "https://h.example/v1", "chat"),
        ("vllm:http://h:5000/v1", "vllm", "http://h:5000/v1", "completions"),
        ("vllm:[::1]:5000", "vllm", "http://[::1]:5000/v1", "completions"),
        ("sglang:chatml:h:30000", "vllm", "http://h:30000/v1", "chat"),
        ("openai", "openai", "https://api.openai.com/v1", "completions"),
        ("openai_chat", "openai", "https://api.openai.com/v1", "chat"),
        ("openai_chat:None:api.example/v1:None:KEY", "openai", "https://api.example/v1", "chat"),
        ("openai_chat:None:http://h:4000/v1", "openai", "http://h:4000/v1", "chat"),
        ("groq:KEY", "openai", "https://api.groq.com/openai/v1", "both"),
    ],
)
def test_every_form_of_a_server_is_read(text: str, kind: str, url: str, routes: str) -> None:
    server = parse_server(text)
    assert (server.kind, server.url, server.routes) == (kind, url, routes)
    if text.endswith("KEY"):
        assert server.headers == {"Authorization": "Bearer KEY"} and "KEY" not in repr(server)


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("http://h:80:u:p", BASIC),
        ("h:None:u:p", BASIC),
        ("http://h    Bearer    x", {"Authorization": "Bearer x"}),
        ("http://h    u    p", BASIC),
        ("vllm:h:1:None:EMPTY", {}),
    ],
)
def test_every_form_of_a_login_becomes_a_header(text: str, headers: dict[str, str]) -> None:
    assert parse_server(text).headers == headers


def test_azure_has_its_own_address_and_header() -> None:
    server = parse_server("openai_azure_chat:dep:me.openai.azure.com:2024-01-01:KEY")
    assert server.url == "https://me.openai.azure.com/openai/deployments/dep"
    assert (server.query, server.headers) == ("api-version=2024-01-01", {"api-key": "KEY"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("replicate:model", "put LiteLLM in front"),
        ("sagemaker:x", "put LiteLLM in front"),
        ("http://169.254.169.254/latest", "link-local"),
        ("http://h:80:onlyuser", "user:password"),
        ("openai_azure:dep", "openai_azure_chat:DEPLOYMENT"),
        ("a b c", "must begin with host:port"),
    ],
)
def test_a_text_that_names_no_server_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadServer, match=message):
        parse_server(text)
