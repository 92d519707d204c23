"""The address of a server: a Unix socket or a port, how it is taken, and whether a server listens there."""

import os
import socket
import sys
from pathlib import Path

SUFFIX = ".sock"
# Bytes of sun_path in sockaddr_un, of which the last is zero: 108 on Linux, 104 on macOS and the BSDs.
MAX_PATH_BYTES = 107 if sys.platform == "linux" else 103
# Lets a server take the port of one that has just ended. On Windows SO_REUSEADDR would share a port in use.
PORT_OPTION = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
CONNECT_TIMEOUT_S = 1.0  # to a port of this machine


def is_unix_socket(host: str) -> bool:
    """Whether the value of HOST is the path of a Unix socket, as in llama.cpp: it ends with .sock."""
    return host.endswith(SUFFIX) and sys.platform != "win32"


def fits_socket(path: Path) -> bool:
    """Whether a Unix socket can have this path."""
    return len(os.fsencode(path)) <= MAX_PATH_BYTES


def find_free_port(host: str) -> int:
    """A port that is free now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
    return port


def is_listening(host: str, port: int = 0) -> bool:
    """Whether a server accepts connections at HOST and PORT. A Unix socket has no port."""
    if is_unix_socket(host):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            return probe.connect_ex(host) == 0
    try:
        socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    return True
