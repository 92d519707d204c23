"""Faults between a Hub and a client, as observed in practice: one class per fault.

A fault strikes the first `times` GETs of its file; later ones succeed.
"""

import threading
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

ALWAYS = 10**9


@dataclass(frozen=True)
class HubReply:
    """The response without a fault: `span` of `content`, or all of it."""

    content: bytes
    span: tuple[int, int] | None
    extra: dict[str, str]

    @property
    def body(self) -> bytes:
        return self.content if self.span is None else self.content[self.span[0] : self.span[1]]

    @property
    def status(self) -> int:
        return 200 if self.span is None else 206

    @property
    def headers(self) -> dict[str, str]:
        if self.span is None:
            return self.extra
        start, stop = self.span
        return {**self.extra, "Content-Range": f"bytes {start}-{stop - 1}/{len(self.content)}"}

    @property
    def headers_with_length(self) -> dict[str, str]:
        """The headers, with the length of the whole body."""
        return {**self.headers, "Content-Length": str(len(self.body))}


class HubFault(Protocol):
    def strikes(self) -> bool: ...

    def respond(self, to: Any, reply: HubReply) -> None: ...


@dataclass
class LimitedFault:
    times: int = field(default=ALWAYS, kw_only=True)

    def strikes(self) -> bool:
        self.times -= 1
        return self.times >= 0


@dataclass
class ErrorStatus(LimitedFault):
    """An error response without the file: 500, 503, 429."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)

    def respond(self, to: Any, reply: HubReply) -> None:
        to.send(self.status, {"error": "boom"}, self.headers)


@dataclass
class Disconnect(LimitedFault):
    """The connection closes after `at` bytes."""

    at: int

    def respond(self, to: Any, reply: HubReply) -> None:
        to.head(reply.status, reply.headers_with_length)
        to.body(reply.body[: self.at])
        to.close_connection = True


@dataclass
class Stall(LimitedFault):
    """After `at` bytes of the file in total, over all connections, nothing is sent until `released`."""

    at: int
    released: threading.Event = field(default_factory=threading.Event, repr=False)
    sent: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def respond(self, to: Any, reply: HubReply) -> None:
        with self.lock:
            now = reply.body[: max(self.at - self.sent, 0)]
            self.sent += len(now)
        to.head(reply.status, reply.headers_with_length)
        to.body(now)
        if len(now) < len(reply.body):
            while not (self.released.wait(0.05) or to.hub.has_ended):
                pass
            to.close_connection = True


@dataclass
class Throttled(LimitedFault):
    """Sends `rate` bytes per second."""

    rate: int

    def respond(self, to: Any, reply: HubReply) -> None:
        to.head(reply.status, reply.headers_with_length)
        step = self.rate // 20
        for start in range(0, len(reply.body), step):
            to.body(reply.body[start : start + step])
            time.sleep(0.05)


@dataclass
class Redirect(LimitedFault):
    """Redirects to a target of its own."""

    target: str

    def respond(self, to: Any, reply: HubReply) -> None:
        to.send(302, b"", {"Location": self.target})


@dataclass
class Short(LimitedFault):
    """The last `by` bytes are missing, and the declared length agrees."""

    by: int

    def respond(self, to: Any, reply: HubReply) -> None:
        to.send(reply.status, reply.body[: -self.by], reply.headers)


@dataclass
class Flip(LimitedFault):
    """One bit of the last byte is flipped."""

    def respond(self, to: Any, reply: HubReply) -> None:
        body = reply.body
        to.send(reply.status, body[:-1] + bytes([body[-1] ^ 1]), reply.headers)


@dataclass
class IgnoredRanges(LimitedFault):
    """Sends the whole file for every range."""

    def respond(self, to: Any, reply: HubReply) -> None:
        to.send(200, reply.content, reply.extra)


@dataclass
class Chunked(LimitedFault):
    """Chunked, without a length, as inspecting proxies send it."""

    def respond(self, to: Any, reply: HubReply) -> None:
        to.head(reply.status, {**reply.headers, "Transfer-Encoding": "chunked"})
        for start in range(0, len(reply.body), 30_000):
            chunk = reply.body[start : start + 30_000]
            to.body(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        to.body(b"0\r\n\r\n")


@dataclass
class Crowded(LimitedFault):
    """At most `places` responses at a time, each of 0.1 s; further requests are refused."""

    places: int
    connections: threading.BoundedSemaphore = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.connections = threading.BoundedSemaphore(self.places)

    def respond(self, to: Any, reply: HubReply) -> None:
        if not self.connections.acquire(blocking=False):
            to.send(503, {"error": "too many connections"})
            return
        try:
            time.sleep(0.1)
            to.send(reply.status, reply.body, reply.headers)
        finally:
            self.connections.release()
