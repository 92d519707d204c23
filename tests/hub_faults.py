"""What goes wrong between a Hub and us, each as it was seen: one class for a fault, told by its name.

A fault strikes the first `times` GETs of its file; then all is well.
"""

import threading
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

ALWAYS = 10**9


@dataclass(frozen=True)
class Reply:
    """What would be sent if all went well: `span` of `whole`, or all of it."""

    whole: bytes
    span: tuple[int, int] | None
    extra: dict[str, str]

    @property
    def body(self) -> bytes:
        return self.whole if self.span is None else self.whole[self.span[0] : self.span[1]]

    @property
    def status(self) -> int:
        return 200 if self.span is None else 206

    @property
    def headers(self) -> dict[str, str]:
        if self.span is None:
            return self.extra
        start, stop = self.span
        return {**self.extra, "Content-Range": f"bytes {start}-{stop - 1}/{len(self.whole)}"}

    @property
    def honest(self) -> dict[str, str]:
        """The headers, with the length of all of the body."""
        return {**self.headers, "Content-Length": str(len(self.body))}


class Fault(Protocol):
    def strikes(self) -> bool: ...

    def answer(self, to: Any, reply: Reply) -> None: ...


@dataclass
class Counted:
    times: int = field(default=ALWAYS, kw_only=True)

    def strikes(self) -> bool:
        self.times -= 1
        return self.times >= 0


@dataclass
class Says(Counted):
    """An answer without the file: 500, 503, 429."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)

    def answer(self, to: Any, reply: Reply) -> None:
        to.answer(self.status, {"error": "boom"}, self.headers)


@dataclass
class Cut(Counted):
    """The connection ends after `at` bytes."""

    at: int

    def answer(self, to: Any, reply: Reply) -> None:
        to.head(reply.status, reply.honest)
        to.body(reply.body[: self.at])
        to.close_connection = True


@dataclass
class Stall(Counted):
    """After `at` bytes of the file in all, whoever asks, nothing comes, until `released`."""

    at: int
    released: threading.Event = field(default_factory=threading.Event, repr=False)
    sent: int = 0
    turn: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def answer(self, to: Any, reply: Reply) -> None:
        with self.turn:
            now = reply.body[: max(self.at - self.sent, 0)]
            self.sent += len(now)
        to.head(reply.status, reply.honest)
        to.body(now)
        if len(now) < len(reply.body):
            self.released.wait(60)
            to.close_connection = True


@dataclass
class Slow(Counted):
    """`rate` bytes a second."""

    rate: int

    def answer(self, to: Any, reply: Reply) -> None:
        to.head(reply.status, reply.honest)
        step = self.rate // 20
        for start in range(0, len(reply.body), step):
            to.body(reply.body[start : start + step])
            time.sleep(0.05)


@dataclass
class Short(Counted):
    """The last `by` bytes are not sent, and the length says so."""

    by: int

    def answer(self, to: Any, reply: Reply) -> None:
        to.answer(reply.status, reply.body[: -self.by], reply.headers)


@dataclass
class Flip(Counted):
    """One bit of the last byte is another."""

    def answer(self, to: Any, reply: Reply) -> None:
        body = reply.body
        to.answer(reply.status, body[:-1] + bytes([body[-1] ^ 1]), reply.headers)


@dataclass
class NoRanges(Counted):
    """All of the file, whatever part was asked for."""

    def answer(self, to: Any, reply: Reply) -> None:
        to.answer(200, reply.whole, reply.extra)


@dataclass
class Chunked(Counted):
    """In chunks, the length not told, as proxies do that look into what passes."""

    def answer(self, to: Any, reply: Reply) -> None:
        to.head(reply.status, {**reply.headers, "Transfer-Encoding": "chunked"})
        for start in range(0, len(reply.body), 30_000):
            part = reply.body[start : start + 30_000]
            to.body(b"%x\r\n%s\r\n" % (len(part), part))
        to.body(b"0\r\n\r\n")


@dataclass
class Crowded(Counted):
    """So many answers at a time, each of a tenth of a second; whoever comes besides is sent away."""

    places: int
    taken: threading.BoundedSemaphore = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.taken = threading.BoundedSemaphore(self.places)

    def answer(self, to: Any, reply: Reply) -> None:
        if not self.taken.acquire(blocking=False):
            to.answer(503, {"error": "too many connections"})
            return
        try:
            time.sleep(0.1)
            to.answer(reply.status, reply.body, reply.headers)
        finally:
            self.taken.release()
