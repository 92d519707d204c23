"""Which names of the server a request's Host header may have: a defence against DNS rebinding.

A web page can let its own name resolve to the address of this server. The browser then sends the page's
requests here as requests of the same origin, and only the Host header shows the page's name. Addresses, and
names that nobody can register, cannot be used for that.
"""

import ipaddress
import re
import socket

from flask import Flask, request

from api.errors import Forbidden
from inference.errors import BadRequest, short
from settings.groups import ServerSettings

ANY = "*"
# A label of a name has up to 63 characters: with longer ones, Flask can make no URL of the name.
HOST = re.compile(
    r"(?P<name>\[[\da-f:.%]+\]|[\w\-]{1,63}(?:\.[\w\-]{1,63})*)\.?(?::\d*)?", re.ASCII | re.IGNORECASE
)
# Reserved by RFC 6761, RFC 6762, RFC 8375 and ICANN; "svc" is Kubernetes'.
PRIVATE_DOMAINS = (".localhost", ".local", ".internal", ".home.arpa", ".svc")


def install(app: Flask, settings: ServerSettings) -> None:
    """Refuse requests whose Host is neither private, nor in ALLOWED_HOSTS, nor the host listened on.

    "*" allows any. So do API keys without ALLOWED_HOSTS: a page does not know them.
    """
    allowed_hosts = settings.allowed_hosts or (ANY,) * bool(settings.api_keys)
    names = {name.lower().rstrip(".") for name in (*allowed_hosts, settings.host, socket.gethostname())}

    def check_host() -> None:
        host = request.environ.get("HTTP_HOST", "")
        if not host:  # HTTP/1.0, which no browser speaks
            return
        matched = HOST.fullmatch(host)
        if matched is None:
            raise BadRequest("the Host header", "is not a name or an address", host)
        name = matched["name"].lower()
        if name not in names and not is_private(name):
            raise Forbidden(
                f"this server does not answer to the name {short(name)}: list it in ALLOWED_HOSTS, or set "
                'API_KEYS, or ALLOWED_HOSTS="*"'
            )

    if ANY not in allowed_hosts:
        app.before_request(check_host)


def is_private(name: str) -> bool:
    """Whether no web page can have this name: an address, a name without a dot, or in a private domain."""
    return "." not in name or name.endswith(PRIVATE_DOMAINS) or is_address(name.strip("[]"))


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
