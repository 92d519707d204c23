"""The missing files, all together: who fetches and who hashes what next, until each is there and right.

One thread owns what is known of the files and hands out the work; others do it and say what became of it.
"""

import errno
from collections.abc import Callable, Iterator
from itertools import islice
from threading import Event

from checks.fetch.blob import Blob, Prove, Receive
from checks.fetch.crew import Crew
from checks.fetch.line import Line, NoRanges, Signals
from checks.fetch.pace import Pace
from checks.fetch.progress import Progress
from checks.fetch.room import Room
from checks.finding import Finding, Refused
from checks.source.hub import Hub

TICK_S = 0.1  # between two looks at disk and progress, where no job ends
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Download:
    """`left`: the files that are not complete yet; `publish` gives those that are to the world."""

    def __init__(
        self,
        name: str,
        blobs: list[Blob],
        publish: Callable[[Blob], None],
        room: Room,
        progress: Progress,
        pace: Pace,
    ) -> None:
        self.name, self.left, self.publish = name, blobs, publish
        self.room, self.progress, self.pace = room, progress, pace
        self.total = sum(blob.file.size for blob in blobs)
        self.signals = Signals(Event())

    def run(self, hub: Hub) -> None:
        """Raises Refused, Fault, Denied or OSError; nobody writes any more when it returns."""
        pace = self.pace
        line = Line(hub, self.signals, pace.timeout_s, pace.streams)
        crew: Crew[Receive | Prove] = Crew(pace.streams + pace.provers, lambda job: job(line, pace.patience))
        try:
            self.conclude()
            while self.left:
                self.room.watch(self.total - self.missing, self.missing)
                self.hand_out(crew)
                if ended := crew.result(TICK_S):
                    self.take_back(*ended)
                    self.conclude()
                self.tell()
            self.tell(now=True)
        finally:
            self.signals.stop.set()
            crew.dismiss()
            self.progress.end()

    @property
    def missing(self) -> int:
        return sum(blob.file.size - blob.partial.written for blob in self.left)

    def hand_out(self, crew: Crew[Receive | Prove]) -> None:
        """As much as there are hands for; what is there is hashed before more is fetched."""
        proving = sum(isinstance(job, Prove) for job in crew.running)
        receiving = len(crew.running) - proving
        for proof in islice(self.to_prove(), self.pace.provers - proving):
            proof.blob.hashing = True
            crew.give(proof)
        for part in list(islice(self.to_receive(), self.pace.streams - receiving)):
            part.blob.busy.add(part.index)
            crew.give(part)

    def to_prove(self) -> Iterator[Prove]:
        return (proof for blob in self.left if (proof := blob.to_prove()))

    def to_receive(self) -> Iterator[Receive]:
        return (part for blob in self.left for part in blob.to_receive())

    def take_back(self, job: Receive | Prove, error: BaseException | None) -> None:
        match job:
            case Receive():
                job.blob.busy.discard(job.index)
            case Prove():
                job.blob.hashing, job.blob.hashed = False, job.stop
        match error:
            case None:
                return
            case NoRanges():
                job.blob.ranges = False
            case OSError() if error.errno in NO_SPACE:
                raise self.room.full(self.missing) from error
            case _:
                raise error

    def conclude(self) -> None:
        """Name the files that are complete and right; begin those anew that are wrong."""
        for blob in [blob for blob in self.left if blob.complete]:
            if blob.right:
                self.publish(blob)
                self.left.remove(blob)
            elif blob.wrong < self.pace.repeats:
                blob.again()
            else:
                raise Refused(self.corrupt(blob))

    def corrupt(self, blob: Blob) -> Finding:
        times = self.pace.repeats + 1
        return Finding(
            "fetch",
            f"{blob.file.name} with the hash {blob.file.etag[:12]}…",
            f"other bytes, {times} times: {blob.hash.hexdigest()[:12]}…",
            False,
            "something on the way changes the file: try without HTTPS_PROXY, or another HF_ENDPOINT",
        )

    def tell(self, *, now: bool = False) -> None:
        done = self.total - self.missing
        if done < self.total or not self.left:
            self.progress.show(f"fetching {self.name}", done, self.total, self.signals.trouble, now=now)
        else:
            hashed = self.total - sum(blob.file.size - blob.hashed for blob in self.left)
            self.progress.show(f"checking {self.name}", hashed, self.total)
