"""Where the process of a model listens, and how the server that has started it reaches it."""

from dataclasses import replace
from pathlib import Path

from inference.process.listen_address import find_free_port, fits_socket, is_unix_socket
from settings.inference_server import InferenceServer, bearer
from settings.remote_model import RemoteModel
from settings.schema import Settings

LOOPBACK = "127.0.0.1"


def private_address(socket_path: Path) -> tuple[str, int]:
    """HOST and PORT for the process: a Unix socket at this path, in a folder of this user alone.

    Where that cannot be, as on Windows or with a long path, a port of this machine that is free now: it needs
    a key.
    """
    if is_unix_socket(str(socket_path)) and fits_socket(socket_path):
        return str(socket_path), 0
    return LOOPBACK, find_free_port(LOOPBACK)


def at_address(model: RemoteModel, settings: Settings) -> RemoteModel:
    """The model at the address that its process listens on."""
    if is_unix_socket(settings.host):
        return replace(model, socket=settings.host)
    return replace(model, server=link_server(f"http://{url_host(settings.host)}:{settings.port}", settings))


def link_server(url: str, settings: Settings) -> InferenceServer:
    """The server of a process. Its key is the only one of the process's settings."""
    (key,) = settings.api_keys
    return InferenceServer("link", url, headers=bearer(key))


def url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
