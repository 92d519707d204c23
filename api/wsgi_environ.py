"""The WSGI environ of an ASGI request, the keys that the server adds to it, and the removal of ROOT_PATH."""

import io
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO
from urllib.parse import unquote_to_bytes

from api.body.large_json import COUNTED_BYTES

Wsgi = Callable[..., Iterable[bytes]]

HANDOVER = "hearth.handover"  # True: the server calls ResponseBody.start itself
REFUSED = "hearth.refused"  # ServerError: the app renders it in place of a response
REQUEST_LOG = "hearth.request_log"  # RequestLog: set by the app, for equal refusals that it does not see
PERMIT = "hearth.permit"  # Permit: reserved for the request before the app runs
RECEIVED = "hearth.received"  # float: time.perf_counter() after the last byte; in the scope's extensions too
DRAINING = "hearth.draining"  # float: seconds until the server, which is shutting down, exits
# bytes: the request is one of a batch; the digest of the API key of the batch's creator, empty: it sent none
BATCH_CREATOR = "hearth.batch_creator"
# dict: what the app remembers of a WebSocket; the request is its handshake or a message. In the scope's
# extensions too.
MESSAGE_STATE = "hearth.message_state"

# In the scope's extensions:
ABORT = "hearth.abort"  # function that drops the connection and its unsent bytes
CONNECTION_END = "hearth.connection_end"  # asyncio.Event: set when the connection of a WebSocket has ended

# Obsolete once the body is read.
DROPPED_HEADERS = frozenset({"content-length", "transfer-encoding", "expect"})


def make_environ(scope: dict[str, Any], body: BinaryIO) -> dict[str, Any]:
    """`body` is at its start; the request was received now, unless the scope says when."""
    path, query = scope["raw_path"], scope["query_string"].decode("latin1")
    raw_uri = path.decode("latin1") + (f"?{query}" if query else "")
    host, port = (scope["server"] or ("", 0))[:2]
    client, client_port = (scope["client"] or ("", 0))[:2]
    length = body.seek(0, io.SEEK_END)
    body.seek(0)
    extensions = scope.get("extensions", {})
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
        "CONTENT_LENGTH": str(length),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": body,
        "wsgi.input_terminated": True,  # it ends where the body ends
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        HANDOVER: True,
        RECEIVED: extensions.get(RECEIVED) or time.perf_counter(),
        MESSAGE_STATE: extensions.get(MESSAGE_STATE),
        **header_environ(scope["headers"]),
    }


def is_small(environ: dict[str, Any]) -> bool:
    """Whether the body is parsed and checked in little time."""
    return int(environ["CONTENT_LENGTH"]) <= COUNTED_BYTES


def header_environ(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by CGI name. Names with an underscore are dropped: CGI cannot tell them from hyphens."""
    environ: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin1").lower(), raw_value.decode("latin1")
        if "_" in name or name in DROPPED_HEADERS:
            continue
        key = "CONTENT_TYPE" if name == "content-type" else "HTTP_" + name.upper().replace("-", "_")
        separator = "; " if name == "cookie" else ","
        environ[key] = f"{environ[key]}{separator}{value}" if key in environ else value
    return environ


def strip_root_path(app: Wsgi, root_path: str) -> Wsgi:
    """`app` without the prefix in its paths. Requests without it are answered, too."""

    def without_prefix(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = without_root_path(environ["PATH_INFO"], root_path)
        if path != environ["PATH_INFO"]:
            environ["SCRIPT_NAME"] += root_path
            environ["PATH_INFO"] = path
        return app(environ, start_response)

    return without_prefix


def without_root_path(path: str, root_path: str) -> str:
    """`path` as the app knows it: without the prefix, where it has one."""
    if path == root_path or path.startswith(f"{root_path}/"):
        return path.removeprefix(root_path) or "/"
    return path
