"""The line to the Hub: bytes of a file, from where the Hub keeps them.

Knows HTTP: ranges, redirects, proxies, what a status means. Not what the bytes are for. The token goes to the
Hub alone: wherever it sends us, we go without. Proxies are those of HTTPS_PROXY; a mirror is HF_ENDPOINT.
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

from checks.source.hub import Hub

log = logging.getLogger(__name__)

CHUNK = 1 << 20  # bytes taken from a connection at once, where it has as many
REDIRECTS = 5
PASSING = (408, 425, 429, 500, 502, 503, 504)  # the next try may go well
REASONS = (
    "Connection refused",
    "Connection reset",
    "Remote end closed connection",
    "Name or service not known",
    "certificate verify failed",
)
LONGEST_S = 600  # that we wait because a server asks us to


class Fault(Exception):
    """A try that failed; the next may not."""


class Denied(Exception):
    """An answer that another try does not change; `code` is the Hub's own word for it."""

    def __init__(self, status: int, code: str, said: str) -> None:
        super().__init__(said or f"HTTP {status}")
        self.status, self.code = status, code


class NoRanges(Exception):
    """The server sends all of the file, whatever part is asked for."""


class Stopped(Exception):
    """Others have ended the work."""


@dataclass(slots=True)
class Address:
    """A file's URL on the Hub, and `direct`, where the Hub sent us last: signed, and good for a while."""

    url: str
    direct: str = ""


@dataclass(slots=True)
class Signals:
    """What all threads share, times as of time.monotonic().

    resume_at  until then nobody asks, as a server wants it
    heard      when the last byte came
    trouble    the last fault; empty once bytes come again
    """

    stop: Event
    resume_at: float = 0.0
    heard: float = 0.0
    trouble: str = ""

    def wait(self, seconds: float) -> None:
        """Raises Stopped at once when the work has ended."""
        until = max(time.monotonic() + seconds, self.resume_at)
        while (left := until - time.monotonic()) > 0:
            self.stop.wait(left)
            self.check()
        self.check()

    def check(self) -> None:
        if self.stop.is_set():
            raise Stopped


class Line:
    """Several connections, kept open between requests; threads share it, each with a request of its own."""

    def __init__(self, hub: Hub, signals: Signals, timeout_s: float, connections: int) -> None:
        self.endpoint, self.signals, self.timeout_s = hub.endpoint, signals, timeout_s
        self.secret = build_hf_headers(token=hub.key, library_name="hearth")
        self.open = {name: value for name, value in self.secret.items() if name.lower() != "authorization"}
        self.session = requests.Session()
        for scheme in ("http://", "https://"):
            self.session.mount(scheme, HTTPAdapter(pool_maxsize=connections))
        self.session.verify = os.environ.get("SSL_CERT_FILE") or True  # as huggingface_hub has it

    def part(self, address: Address, start: int, stop: int, size: int) -> Iterator[bytes]:
        """[start, stop) of a file of `size` bytes, as it comes.

        Raises Fault, Denied, NoRanges where only all of it is to be had, and Stopped.
        """
        some = (start, stop) != (0, size)
        with closing(self.answer(address, f"bytes={start}-{stop - 1}" if some else "")) as response:
            if some and response.status_code != 206:
                raise NoRanges
            if some and not starts_at(response, start, size):
                raise Fault(f"{host(response.url)} sends another part than was asked for")
            yield from self.body(response, stop - start)

    def body(self, response: Response, length: int) -> Iterator[bytes]:
        while length:
            try:
                chunk = response.raw.read1(min(CHUNK, length))
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise Fault(f"{host(response.url)}: {cause(error, self.timeout_s)}") from error
            self.signals.check()
            if not chunk:
                raise Fault(f"{host(response.url)} ended {length} bytes too early")
            length -= len(chunk)
            self.signals.heard, self.signals.trouble = time.monotonic(), ""
            yield chunk

    def answer(self, address: Address, wanted: str) -> Response:
        """The response that has the bytes, wherever the Hub sends us for them."""
        url = address.direct or address.url
        for _ in range(REDIRECTS):
            response = self.ask(url, wanted)
            if not response.is_redirect:
                break
            response.close()
            url = urljoin(url, response.headers["Location"])
            address.direct = url if not same_origin(url, self.endpoint) else ""
        else:
            raise Fault(f"{host(url)} sends us round in a circle")
        if response.status_code in (200, 206):
            return response
        with closing(response):
            self.refuse(response, address)
        raise AssertionError("every other status is refused")

    def ask(self, url: str, wanted: str) -> Response:
        self.signals.wait(0)
        ours = self.secret if same_origin(url, self.endpoint) else self.open
        headers = {**ours, "Accept-Encoding": "identity", **({"Range": wanted} if wanted else {})}
        try:
            return self.session.get(
                url,
                headers=headers,
                auth=as_it_is,
                stream=True,
                allow_redirects=False,
                timeout=(self.timeout_s, self.timeout_s),
            )
        except requests.RequestException as error:
            raise Fault(f"{host(url)} does not answer ({cause(error, self.timeout_s)})") from error

    def refuse(self, response: Response, address: Address) -> None:
        """Raises Fault or Denied. Whoever is not the Hub refuses a signed address that has grown old: the Hub
        has a new one."""
        status, after_s = response.status_code, asked_to_wait(response)
        what = f"{host(response.url)} answers {status}"
        if status in PASSING or not same_origin(response.url, self.endpoint):
            address.direct = ""
            self.signals.resume_at = max(self.signals.resume_at, time.monotonic() + after_s)
            raise Fault(f"{what}: {said(response)}".rstrip(": "))
        raise Denied(status, response.headers.get("X-Error-Code", ""), said(response))


def address_of(endpoint: str, name: str, commit: str, file: str) -> Address:
    return Address(f"{endpoint}/{name}/resolve/{commit}/{quote(file)}")


def as_it_is(request: PreparedRequest) -> PreparedRequest:
    """Keeps requests from putting what a .netrc says in the place of the token."""
    return request


def same_origin(url: str, other: str) -> bool:
    return urlsplit(url)[:2] == urlsplit(other)[:2]


def host(url: str) -> str:
    """Without the path, which may carry a signature."""
    return "{}://{}".format(*urlsplit(url))


def starts_at(response: Response, start: int, size: int) -> bool:
    return response.headers.get("Content-Range", "").startswith(f"bytes {start}-") and response.headers[
        "Content-Range"
    ].endswith((f"/{size}", "/*"))


def asked_to_wait(response: Response) -> float:
    """Seconds, of Retry-After (a number or a date) or of RateLimit where nothing remains."""
    asked = response.headers.get("Retry-After", "").strip()
    spent = re.search(r"\br=0\s*;\s*t=(\d+)", response.headers.get("RateLimit", ""))
    if asked.isdigit():
        return min(float(asked), LONGEST_S)
    if asked:
        try:
            return min(max(parsedate_to_datetime(asked).timestamp() - time.time(), 0.0), LONGEST_S)
        except ValueError:
            log.debug("a Retry-After that is neither seconds nor a date: %s", asked)
    return min(float(spent[1]), LONGEST_S) if spent else 0.0


def said(response: Response) -> str:
    """What the server says of it, in one line."""
    if message := response.headers.get("X-Error-Message"):
        return message
    try:
        body = response.raw.read(10_000, decode_content=True)
    except (urllib3.exceptions.HTTPError, OSError):
        return response.reason or ""
    found = re.search(rb'"error"\s*:\s*"([^"]*)"', body)
    return found[1].decode(errors="replace") if found else response.reason or ""


def cause(error: BaseException, timeout_s: float) -> str:
    """The innermost reason, for people."""
    text = str(error)
    if "timed out" in text:
        return f"nothing for {timeout_s:g} s"
    known = next((reason for reason in REASONS if reason in text), "")
    return known.lower() or text[-100:] or type(error).__name__
