"""The WSGI environ of an ASGI request."""

import io
from typing import Any

import pytest

from api.wsgi_environ import header_environ, make_environ


def environ(path: bytes = b"/", query: bytes = b"", body: bytes = b"") -> dict[str, Any]:
    scope = {
        "method": "POST",
        "raw_path": path,
        "query_string": query,
        "headers": [(b"host", b"x"), (b"content-type", b"text/plain"), (b"content-length", b"99")],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 8000),
        "client": ("10.0.0.7", 4321),
    }
    return make_environ(scope, io.BytesIO(body))


def test_the_path_is_decoded_and_its_raw_form_kept() -> None:
    variables = environ(b"/a%2Fb/%E2%82%AC", b"q=%20")
    assert variables["PATH_INFO"].encode("latin1").decode() == "/a/b/€"
    assert variables["RAW_URI"] == variables["REQUEST_URI"] == "/a%2Fb/%E2%82%AC?q=%20"
    assert variables["QUERY_STRING"] == "q=%20"


def test_the_length_is_that_of_the_body_read() -> None:
    variables = environ(body=b"{}")
    assert (variables["CONTENT_LENGTH"], variables["wsgi.input"].read()) == ("2", b"{}")
    assert "HTTP_CONTENT_LENGTH" not in variables


def test_the_client_address_is_passed_on() -> None:
    assert (environ()["REMOTE_ADDR"], environ()["REMOTE_PORT"]) == ("10.0.0.7", "4321")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(b"accept", b"a"), (b"Accept", b"b")], {"HTTP_ACCEPT": "a,b"}),
        ([(b"cookie", b"a=1"), (b"cookie", b"b=2")], {"HTTP_COOKIE": "a=1; b=2"}),
        ([(b"content-type", b"x/y")], {"CONTENT_TYPE": "x/y"}),
        ([(b"x-api-key", b"real"), (b"x_api_key", b"forged")], {"HTTP_X_API_KEY": "real"}),
        ([(b"transfer-encoding", b"chunked"), (b"expect", b"100-continue")], {}),
        ([(b"x-name", "é".encode("latin1"))], {"HTTP_X_NAME": "é"}),
    ],
)
def test_headers_become_cgi_names(headers: list[tuple[bytes, bytes]], expected: dict[str, str]) -> None:
    assert header_environ(headers) == expected
