"""Warns of a server that everyone on its networks can use."""

import ipaddress
import logging

log = logging.getLogger("hearth")


def warn_if_open(host: str, api_keys: tuple[str, ...]) -> None:
    if api_keys or is_loopback(host):
        return
    log.warning(
        "HOST=%s opens the server to everyone on its networks, without a key: set API_KEYS. Until then, "
        "requests whose Host is a public name get status 403, unless ALLOWED_HOSTS lists the name",
        host,
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`, an address or a name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
