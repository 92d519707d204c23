"""HTTP client for ranges of files on the Hub: redirects, proxies, status codes.

The token is sent to the Hub only, never to the hosts that it redirects to. HTTPS_PROXY sets a proxy,
HF_ENDPOINT a mirror.
"""

import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import Event
from urllib.parse import quote, urljoin, urlsplit

import requests
import urllib3
from huggingface_hub.utils import build_hf_headers
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

from hub.client import Hub
from inference.finding import format_count

log = logging.getLogger(__name__)

CHUNK = 1 << 20  # most bytes read from a connection at once
MAX_REDIRECTS = 5
RETRYABLE_STATUSES = (408, 425, 429, 500, 502, 503, 504)  # a retry may succeed
KNOWN_REASONS = (
    "Connection refused",
    "Connection reset",
    "Remote end closed connection",
    "Name or service not known",
    "certificate verify failed",
)
MAX_WAIT_S = 600  # limit of the wait that a server requests


class TransientError(Exception):
    """A failure that a retry may fix."""


class RequestDenied(Exception):
    """A refusal that a retry does not change. `code` is the Hub's error code, such as GatedRepo."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message or f"HTTP {status}")
        self.status, self.code = status, code


class RangesUnsupported(Exception):
    """The server ignores the Range header and sends the whole file."""


class DownloadStopped(Exception):
    """The download was stopped by another thread."""


@dataclass(slots=True)
class FileAddress:
    """A file's URL on the Hub, and the last redirect target: a signed URL that expires."""

    url: str
    direct_url: str = ""


@dataclass(slots=True)
class SharedState:
    """State that all threads of a download share. Times are those of time.monotonic().

    stop          set when the download ends
    resume_at     no request is sent before this time (Retry-After)
    last_byte_at  when the last byte arrived
    last_error    the last transient error; empty once bytes arrive again
    """

    stop: Event
    resume_at: float = 0.0
    last_byte_at: float = 0.0
    last_error: str = ""

    def wait(self, seconds: float) -> None:
        """Wait at least `seconds`, and until resume_at. Raises DownloadStopped as soon as `stop` is set."""
        until = max(time.monotonic() + seconds, self.resume_at)
        while (remaining_s := until - time.monotonic()) > 0:
            self.stop.wait(remaining_s)
            self.raise_if_stopped()
        self.raise_if_stopped()

    def raise_if_stopped(self) -> None:
        if self.stop.is_set():
            raise DownloadStopped


class RangeClient:
    """A session with keep-alive connections. Threads share it; each runs one request at a time."""

    def __init__(self, hub: Hub, state: SharedState, timeout_s: float, connections: int) -> None:
        self.endpoint, self.state, self.timeout_s = hub.endpoint, state, timeout_s
        self.auth_headers = build_hf_headers(token=hub.auth_token, library_name="hearth")
        self.public_headers = {
            name: value for name, value in self.auth_headers.items() if name.lower() != "authorization"
        }
        self.session = requests.Session()
        for scheme in ("http://", "https://"):
            self.session.mount(scheme, HTTPAdapter(pool_maxsize=connections))
        self.session.verify = os.environ.get("SSL_CERT_FILE") or True  # as in huggingface_hub

    def read_range(self, address: FileAddress, start: int, stop: int, size: int) -> Iterator[bytes]:
        """Yield bytes [start, stop) of a file of `size` bytes as they arrive.

        Raises TransientError, RequestDenied, RangesUnsupported and DownloadStopped.
        """
        is_partial = (start, stop) != (0, size)
        with closing(
            self.get_response(address, f"bytes={start}-{stop - 1}" if is_partial else "")
        ) as response:
            if is_partial and response.status_code != 206:
                raise RangesUnsupported
            if is_partial and not is_range_of(response, start, size):
                raise TransientError(f"{origin_of(response.url)} sent another range than requested")
            yield from self.read_body(response, stop - start)

    def read_body(self, response: Response, length: int) -> Iterator[bytes]:
        while length:
            try:
                chunk = response.raw.read1(min(CHUNK, length))
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise TransientError(
                    f"{origin_of(response.url)}: {describe_cause(error, self.timeout_s)}"
                ) from error
            self.state.raise_if_stopped()
            if not chunk:
                missing = format_count(length, "byte")
                raise TransientError(f"{origin_of(response.url)} ended {missing} too early")
            length -= len(chunk)
            self.state.last_byte_at, self.state.last_error = time.monotonic(), ""
            yield chunk

    def get_response(self, address: FileAddress, range_header: str) -> Response:
        """Send the request and follow redirects. Raises TransientError or RequestDenied."""
        url = address.direct_url or address.url
        for _ in range(MAX_REDIRECTS):
            response = self.send_request(url, range_header)
            if not response.is_redirect:
                break
            response.close()
            url = urljoin(url, response.headers["Location"])
            address.direct_url = url if not same_origin(url, self.endpoint) else ""
        else:
            raise TransientError(f"{origin_of(url)} redirects too often")
        if response.status_code in (200, 206):
            return response
        with closing(response):
            self.raise_for_status(response, address)
        raise AssertionError("every other status is refused")

    def send_request(self, url: str, range_header: str) -> Response:
        self.state.wait(0)
        base_headers = self.auth_headers if same_origin(url, self.endpoint) else self.public_headers
        headers = {
            **base_headers,
            "Accept-Encoding": "identity",
            **({"Range": range_header} if range_header else {}),
        }
        try:
            return self.session.get(
                url,
                headers=headers,
                auth=skip_netrc_auth,
                stream=True,
                allow_redirects=False,
                timeout=(self.timeout_s, self.timeout_s),
            )
        except (requests.RequestException, ValueError) as error:  # ValueError: it redirects to no URL
            raise TransientError(
                f"{origin_of(url)} does not answer ({describe_cause(error, self.timeout_s)})"
            ) from error

    def raise_for_status(self, response: Response, address: FileAddress) -> None:
        """Raise TransientError or RequestDenied.

        A refusal by another host than the Hub means that the signed URL has expired: a retry gets a new one.
        """
        status, after_s = response.status_code, retry_after_s(response)
        message = f"{origin_of(response.url)} answers {status}"
        if status in RETRYABLE_STATUSES or not same_origin(response.url, self.endpoint):
            address.direct_url = ""
            self.state.resume_at = max(self.state.resume_at, time.monotonic() + after_s)
            raise TransientError(f"{message}: {server_message(response)}".rstrip(": "))
        raise RequestDenied(status, response.headers.get("X-Error-Code", ""), server_message(response))


def address_of(endpoint: str, name: str, commit: str, file: str) -> FileAddress:
    return FileAddress(f"{endpoint}/{name}/resolve/{commit}/{quote(file)}")


def skip_netrc_auth(request: PreparedRequest) -> PreparedRequest:
    """Prevents requests from replacing the token with the login of a .netrc file."""
    return request


def same_origin(url: str, other: str) -> bool:
    return urlsplit(url)[:2] == urlsplit(other)[:2]


def origin_of(url: str) -> str:
    """Scheme and host, without the path and query, which may contain a signature."""
    return "{}://{}".format(*urlsplit(url))


def is_range_of(response: Response, start: int, size: int) -> bool:
    return response.headers.get("Content-Range", "").startswith(f"bytes {start}-") and response.headers[
        "Content-Range"
    ].endswith((f"/{size}", "/*"))


def retry_after_s(response: Response) -> float:
    """Seconds to wait: Retry-After (number or date), or RateLimit's reset if no requests remain; else 0."""
    retry_after = response.headers.get("Retry-After", "").strip()
    rate_limit = re.search(r"\br=0\s*;\s*t=(\d+)", response.headers.get("RateLimit", ""))
    if retry_after.isascii() and retry_after.isdecimal():
        return min(float(retry_after), MAX_WAIT_S)
    if retry_after:
        try:
            return min(max(parsedate_to_datetime(retry_after).timestamp() - time.time(), 0.0), MAX_WAIT_S)
        except ValueError:
            log.debug("Retry-After is neither seconds nor a date: %s", retry_after)
    return min(float(rate_limit[1]), MAX_WAIT_S) if rate_limit else 0.0


def server_message(response: Response) -> str:
    """The server's error message as one line."""
    if message := response.headers.get("X-Error-Message"):
        return message
    try:
        body = response.raw.read(10_000, decode_content=True)
    except (urllib3.exceptions.HTTPError, OSError):
        return response.reason or ""
    match = re.search(rb'"error"\s*:\s*"([^"]*)"', body)
    return match[1].decode(errors="replace") if match else response.reason or ""


def describe_cause(error: BaseException, timeout_s: float) -> str:
    """A short reason for a message to the user."""
    text = str(error)
    if "timed out" in text:
        return f"no response for {timeout_s:g} s"
    known = next((reason for reason in KNOWN_REASONS if reason in text), "")
    return known.lower() or text[-100:] or type(error).__name__
