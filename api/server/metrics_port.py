"""Serves /metrics on a separate port, for collectors that cannot reach the serving port.

Knows HTTP, not the metrics.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from api.health import METRICS_CONTENT_TYPE

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

TIMEOUT_S = 5.0  # a collector that sends nothing for this long is dropped


class MetricsServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: a collector may disconnect at any time."""


class MetricsServerIPv6(MetricsServer):
    address_family = socket.AF_INET6


class QuietHandler(WSGIRequestHandler):
    timeout = TIMEOUT_S

    def log_message(self, format: str, *values: Any) -> None:
        pass


@contextlib.contextmanager
def serve_metrics(render: Callable[[], bytes], host: str, port: int) -> Iterator[int]:
    """Serve `render()` at /metrics until the context exits. Yields the port; `port` 0 selects a free one.

    Raises OSError if the address cannot be bound.
    """

    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        is_metrics = environ["PATH_INFO"] == "/metrics"
        body = render() if is_metrics else b"this port serves only /metrics\n"
        headers = [("Content-Type", METRICS_CONTENT_TYPE), ("Content-Length", str(len(body)))]
        start_response("200 OK" if is_metrics else "404 Not Found", headers)
        return [body]

    server_class = MetricsServerIPv6 if ":" in host else MetricsServer
    server = make_server(host, port, app, server_class, QuietHandler)
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
