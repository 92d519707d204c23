"""The WSGI environ of an ASGI request, and the keys by which the server tells the app what WSGI cannot."""

import io
import sys
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

HANDOVER = "hearth.handover"  # True: the server starts an Answer itself
REFUSED = "hearth.refused"  # the ServerError that ended the reading of the request
DRAINING = "hearth.draining"  # seconds until the server, which is shutting down, is gone

ABORT = "hearth.abort"  # in the scope's extensions: drop the connection, whatever is still unsent

UNTOLD = frozenset({"content-length", "transfer-encoding", "expect"})  # settled by reading the body


def make_environ(scope: dict[str, Any], body: bytes) -> dict[str, Any]:
    path, query = scope["raw_path"], scope["query_string"].decode("latin1")
    raw_uri = path.decode("latin1") + (f"?{query}" if query else "")
    host, port = (scope["server"] or ("", 0))[:2]
    client, client_port = (scope["client"] or ("", 0))[:2]
    return {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin1"),
        "QUERY_STRING": query,
        "RAW_URI": raw_uri,
        "REQUEST_URI": raw_uri,
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": client,
        "REMOTE_PORT": str(client_port),
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        HANDOVER: True,
        **header_environ(scope["headers"]),
    }


def header_environ(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers as CGI names. A name with an underscore would pass for one with a hyphen: it is dropped."""
    environ: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin1").lower(), raw_value.decode("latin1")
        if "_" in name or name in UNTOLD:
            continue
        key = "CONTENT_TYPE" if name == "content-type" else "HTTP_" + name.upper().replace("-", "_")
        between = "; " if name == "cookie" else ","
        environ[key] = f"{environ[key]}{between}{value}" if key in environ else value
    return environ
