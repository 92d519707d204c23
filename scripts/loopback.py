"""HTTP servers on this machine: free ports, waiting until a server is ready, and a server in a thread."""

import contextlib
import secrets
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
PORTS = range(10_000, 32_768)  # below those that systems give to outgoing connections


def free_port() -> int:
    """A port that nothing uses, and that no outgoing connection gets before a server listens there."""
    while True:
        port = secrets.choice(PORTS)  # another one in each process, whatever the seeds of its tests are
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port


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
