"""HTTP servers on this machine: free ports, waiting until a server is ready, and a server in a thread."""

import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

HOST = "127.0.0.1"
POLL_S = 0.02  # between checks for shutdown
READY_POLL_S = 0.05


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def wait_until_ready(url: str, process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait until `url` responds with success; returns whether it does before the process or the time ends."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return True
        except OSError:
            time.sleep(READY_POLL_S)
    return False


@contextmanager
def listening(server: ThreadingHTTPServer) -> Iterator[str]:
    """Serve requests within the block; yields the URL. `server` is already bound; it is closed at the end."""
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
