"""A server of this process on a free port of this machine, for as long as somebody wants it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

POLL_S = 0.02  # between looks whether it is to end


@contextmanager
def listening(server: ThreadingHTTPServer) -> Iterator[str]:
    """Its address. `server` is bound, and closed afterwards."""
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
