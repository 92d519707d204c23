"""Unix sockets: how a setting names one, and whether a server listens on one."""

import socket
import sys

SUFFIX = ".sock"


def is_unix_socket(host: str) -> bool:
    """Whether the value of HOST is the path of a Unix socket, as in llama.cpp: it ends with .sock."""
    return host.endswith(SUFFIX) and sys.platform != "win32"


def is_listening(path: str) -> bool:
    """Whether a server accepts connections on the Unix socket `path`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(path) == 0
