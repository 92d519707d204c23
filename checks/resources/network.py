"""Checks that the server can listen, open enough connections, and has a key if others reach it."""

import ipaddress

from checks.machine import Machine, find_port_error
from inference.finding import Finding, format_count
from inference.process.listen_address import is_unix_socket
from settings.schema import Settings

FIXES = (
    ("in use", "stop the program that listens on it, or set {name} to another port"),
    ("bytes", "set HOST to a shorter path"),
    ("denied", "ports below 1024 are reserved: set {name} to 1024 or more"),
)
OWN_FILES = 256  # files: libraries, weights, workers, the log
FILES_PER_REQUEST = (
    2  # connections per accepted request: its own, and one of a request refused with status 429
)


def check_network(settings: Settings, machine: Machine) -> list[Finding]:
    """Check HOST, PORT, PROMETHEUS_PORT if it is set, and the limit of open files."""
    host, prometheus_port = settings.host, settings.prometheus_port
    findings = check_open_host(host, bool(settings.api_keys), settings.allow_open_host)
    findings.append(check_port(host, settings.port, machine.port_error))
    if prometheus_port:
        port_error = find_port_error(host, prometheus_port)
        findings.append(check_port(host, prometheus_port, port_error, "PROMETHEUS_PORT"))
    return [*findings, check_open_files(settings.max_concurrent_requests, machine.max_open_files)]


def check_open_host(host: str, has_keys: bool, is_allowed: bool) -> list[Finding]:
    """Check that a host that other machines reach has keys. With ALLOW_OPEN_HOST the finding is a warning."""
    if has_keys or is_loopback(host):
        return []
    fix = "set API_KEYS: without, whoever reaches this address can use the server"
    if not is_allowed:
        fix += '; or HOST = "127.0.0.1" to serve this machine only, or ALLOW_OPEN_HOST = True'
    return [
        Finding(
            "host", "API_KEYS to serve other machines", f"{host or 'all addresses'}, no keys", is_allowed, fix
        )
    ]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`: an address, a name, or the path of a Unix socket."""
    if is_unix_socket(host):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_port(host: str, port: int, port_error: str, name: str = "PORT") -> Finding:
    """`port_error`: why host:port cannot be bound, empty if it can; `name`: the setting of the port."""
    address = f"{host}:{port}"
    if not port_error:
        return Finding("port", address, "free", True)
    fix = next((fix for word, fix in FIXES if word in port_error), "set HOST to an address of this machine")
    return Finding("port", address, port_error, False, fix.format(name=name))


def check_open_files(max_concurrent_requests: int, max_open_files: int) -> Finding:
    """Check `max_open_files`, the hard limit of the system, against MAX_CONCURRENT_REQUESTS."""
    need = OWN_FILES + FILES_PER_REQUEST * max_concurrent_requests
    need_text = f"{need}, for {format_count(max_concurrent_requests, 'concurrent request')}"
    if need <= max_open_files:
        return Finding("open files", need_text, str(max_open_files), True)
    max_requests = max(1, (max_open_files - OWN_FILES) // FILES_PER_REQUEST)
    fix = f"ulimit -n {need} before the start, or MAX_CONCURRENT_REQUESTS = {max_requests}"
    return Finding("open files", need_text, f"{max_open_files}, the limit of ulimit -n", False, fix)
