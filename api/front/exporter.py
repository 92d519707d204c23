"""/metrics on a port of its own, for collectors that may not reach the one that serves.

Knows how to get the figures; not what they are.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TIMEOUT_S = 5.0  # a collector that sends nothing for so long is dropped
TYPE = "text/plain; version=0.0.4; charset=utf-8"


@contextlib.contextmanager
def exporting(render: Callable[[], bytes], host: str, port: int) -> Iterator[int]:
    """Show what `render` gives at /metrics on host:port until the end; yields the port, which 0 leaves open.

    Raises OSError where the address cannot be had.
    """
    server = Server(host, port, handler(render))
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, answers: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), answers)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A collector that hangs up is no fault of ours."""


def handler(render: Callable[[], bytes]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = TIMEOUT_S

        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/metrics"
            body = render() if found else b"only /metrics is here\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *values: Any) -> None:
            pass

    return Handler
